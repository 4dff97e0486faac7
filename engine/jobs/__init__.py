"""What runs on Spark: `DataFrame -> DataFrame` functions with explicit schemas, and what they all need.

Importing this package, `session` or `storage` imports no pyspark: commands and actors look at names and terms only.
"""
