"""Requests and responses that aiokafka lacks, Fetch and Produce by hand, and the meaning of every error code."""
