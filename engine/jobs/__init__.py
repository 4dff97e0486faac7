"""Jobs that run on Spark: `DataFrame -> DataFrame` functions with explicit schemas, and the runtime of all jobs.

Importing this package, or `runtime.session`, imports no pyspark: commands and actors use only names and options.
"""
