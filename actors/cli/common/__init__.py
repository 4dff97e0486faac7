"""Modules that several commands share: flags, exit codes, connections to a running mirror and to its Spark."""
