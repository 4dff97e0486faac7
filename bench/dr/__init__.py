"""The matrix of issue 20: every operation between two clusters, killed at every step, judged by stock clients."""
