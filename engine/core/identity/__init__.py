"""Which cluster an alias stands for, from cluster ids, topic ids and leader epochs."""
