"""The command line. `--help`, `check` and `cluster` import neither Ray nor Spark.

`main` finds the command; each command is a module of one of the packages here, with its flags and its exit codes.
"""
