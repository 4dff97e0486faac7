"""Identifies the cluster behind an alias by cluster ids, topic ids and leader epochs."""
