"""The command line. `--help`, `check` and `cluster` import neither Ray nor Spark.

`main` selects the command. Each command is a module in one of these packages, with its flags and exit codes.
"""
