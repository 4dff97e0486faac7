"""Makes topics of a cluster anew, and appends chosen records exactly once, for a failback.

It may import the ports, the lane's writer, policies and the base. Clusters come in as ports; what is to be made goes
out as rows that an operation stores before anything is deleted or appended.
"""
