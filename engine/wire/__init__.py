"""Decodes and encodes record batches as Kafka stores them."""
