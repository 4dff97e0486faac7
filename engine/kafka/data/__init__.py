"""The data path and the logs: fetch, produce, fencing, offsets, epochs, headers and records of a partition."""
