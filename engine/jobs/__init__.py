"""Jobs that run on Spark: `DataFrame -> DataFrame` functions with explicit schemas, and what all of them need.

Importing this package, or `runtime.session`, imports no pyspark: commands and actors look at names and options only.
"""
