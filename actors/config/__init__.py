"""The configuration of a mirror: loads it from its reference, compares it with another, checks it, changes its file."""
