"""The audit trail of config changes, as a table."""
