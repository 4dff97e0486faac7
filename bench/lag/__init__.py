"""The history of lag under a full load of samples: delay and correctness."""
