"""Reads and writes small internal topics as logs: state, events, checkpoints, maps, offset syncs, commits."""
