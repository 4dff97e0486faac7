"""Decides which copier gets which partitions, how many copiers a flow has, and which copier is unhealthy."""
