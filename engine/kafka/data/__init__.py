"""The data path and reads of logs: fetch, produce, fencing, offsets, epochs, headers and records of a partition."""
