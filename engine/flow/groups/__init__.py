"""Mirrors consumer groups: translates offsets, commits them if that is safe, and moves groups back after a failover."""
