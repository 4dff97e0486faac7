"""Benches of the mirror's recovery from faults, measured from outside."""
