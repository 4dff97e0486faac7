"""Benches of one part each, without a mirror."""
