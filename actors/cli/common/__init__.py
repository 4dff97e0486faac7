"""Helpers that several commands share: flags, exit codes, the way to a running mirror, its Spark from outside."""
