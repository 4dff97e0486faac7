"""Copies lanes of one flow: the copier, and its loops of maintenance, commits, syncs, samples and heartbeats.

Input: sets of partitions from a supervisor. Output: progress, events, and all that the packages it imports write.
"""
