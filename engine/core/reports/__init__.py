"""Reports and measurements: progress, lag, recovery point, latency, the results of a drain and of config sync."""
