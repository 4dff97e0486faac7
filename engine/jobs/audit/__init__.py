"""The audit of config changes as a table."""
