"""Shared parts of tests on real brokers: topics, loads, a mirror that can run again and again, the comparison."""
