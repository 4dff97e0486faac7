"""The audit trail of config changes, as Parquet files."""
