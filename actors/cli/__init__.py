"""The command line. `--help`, `check` and `cluster` import neither Ray nor Spark.

`main` finds the command; each command is a module of one of the rooms below, with its flags and its exit codes.
"""
