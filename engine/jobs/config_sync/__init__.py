"""Plans a round of config and ACL sync on Spark: executors read both clusters, a join finds what differs.

In: a request with the memory of the round before. Out: a plan. Nothing here writes to a cluster; only the Metadata
process applies plans.
"""
