"""Every key of a configuration: those that raymirror reads, and those of Kafka that it does not read, with the reason.

`table.py` joins both. engine/CONFIG.md is written from it, `raymirror check --explain` answers from it, and a test
compares it with Kafka's classes.
"""
