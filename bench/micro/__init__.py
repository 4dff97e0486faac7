"""Benches of one part each, most of them without a mirror."""
