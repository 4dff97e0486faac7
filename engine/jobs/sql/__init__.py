"""SQL on raymirror's tables, by DuckDB in the process of the command. Only reads; imports neither Ray nor Spark."""
