"""`translation`: committed offsets of many groups on the target, by each system, judged by the records themselves."""
