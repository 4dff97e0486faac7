"""Faults while a backlog is copied over a distance, so that the windows of the mirror are full.

`settings.py` has the distance and the sizes, `cluster.py` the clusters behind it, `backlog.py` fills the source,
`flight.py` counts appends in flight, `judging.py` proves the copy and its translations. The other modules of
`bench.recovery` import this package, which imports no fault.
"""
