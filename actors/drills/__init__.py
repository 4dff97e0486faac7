"""Drills that a mirror runs by itself: decided in the Metadata process, run in a process of their own.

Enters: a schedule and the last report; leaves: a `DrillStanding` for status and metrics. Imports the engine, and
`actors.config` and `actors.model`; `actors.ray` creates it.
"""
