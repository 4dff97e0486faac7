"""The command line. `--help`, `check` and `cluster` import neither Ray nor Spark."""
