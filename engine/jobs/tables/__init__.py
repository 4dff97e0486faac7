"""Tables of Spark's results, in the Delta Lake format: what they hold, how they are written, read and maintained.

`columns` and `catalog` describe every table and import nothing else. Rows enter as Arrow tables, or as Parquet files
that Spark wrote and `table` commits; they leave as Arrow tables (`reading`). `care` folds small files and deletes old
ones. Imports neither Ray nor Spark.
"""
