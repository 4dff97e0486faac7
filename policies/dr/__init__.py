"""The rules of a failback: what it may do with the records that only one of two clusters has, and where groups go."""
