"""Benches: one command per published figure, `python -m bench NAME`."""
