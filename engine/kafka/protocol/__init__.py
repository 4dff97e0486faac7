"""Requests and responses that aiokafka lacks, our own Fetch and Produce, and the meaning of every error code."""
