"""Bytes <-> values: record batches as Kafka stores them."""
