"""The copy engine. It knows Kafka, and does not know Ray."""
