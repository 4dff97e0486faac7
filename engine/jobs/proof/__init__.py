"""The proof of copy: compares every record of a stretch with its copy, by the offset map and by hashes.

In: both clusters and a flow. Out: a report per lane. It runs on Spark, or in one process if there is little to read.
"""
