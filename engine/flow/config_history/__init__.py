"""Keeps the history of topic configs of one flow: their values over time on both sides, changes of the source, drift.

In: what each round of config sync saw and wrote. Out: rows for a store that survives restarts, and events about drift.
`look`, `rows`, `expected`, `state` and `advance` are pure; `keeper` has the queue. Knows neither the rounds nor tables.
"""
