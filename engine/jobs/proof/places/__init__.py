"""The two places of a proof, Spark's executors and this process: they read partition logs as tables of hashes."""
