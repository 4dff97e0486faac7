"""The ports of the flow, filled with real brokers; the only importer of aiokafka."""
