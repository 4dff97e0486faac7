"""The context of one copier: what all of its parts share, i.e. options, clusters, lanes, lease, tasks and events.

In: nothing; the copier creates it. Out: to `io`, `ownership` and `replication`, whose parts take it as first argument.
"""
