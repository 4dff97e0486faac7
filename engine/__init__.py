"""The copy engine: knows Kafka, not Ray."""
