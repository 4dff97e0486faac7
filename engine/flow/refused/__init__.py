"""Leaves refused records out of the copy, and reads, replays and drops the entries of the quarantine topic.

Imports lanes, their context and the ports of clusters. The failure handler calls `leaving_out` for a refused batch; the
command `raymirror quarantine` and the proof of copy use the readers.
"""
