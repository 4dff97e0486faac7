"""The copier of one flow: the lanes that it was given, its loops of maintenance, commits, syncs and heartbeats.

In: sets of partitions from a supervisor. Out: progress, events, and all that the packages it imports write.
"""
