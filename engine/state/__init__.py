"""The stored state and events of a flow: the formats of its records on the target cluster.

Pure: `engine.flow.topic_logs` reads and writes these records, `actors` decide what they say.
"""
