"""Checks before a start: topics that cannot be created, quotas, disks, a running MM2, two aliases of one cluster.

Input: a configuration and both clusters. Output: problems and doubts, each with the key that it comes from.
The checks change nothing.
"""
