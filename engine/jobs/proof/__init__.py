"""The proof of copy: every record of a stretch compared with its copy, by the offset map and by hashes.

In: both clusters and a flow. Out: a report per lane. On Spark, or in one process where there is little to read.
"""
