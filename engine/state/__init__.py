"""Formats of the stored state and events of a flow: the records of its two topics on the target cluster.

Pure: `engine.flow.topic_logs` reads and writes these records, `actors` decides their contents.
"""
