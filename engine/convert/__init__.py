"""Converts what other mirroring tools are configured with into a `mirror.yaml`.

In: bytes of files of MirrorMaker 1, Kafka Connect, Strimzi, Confluent Replicator or uReplicator. Out: the text of a
configuration that loads, and a report that names every line that could not be carried. It connects to no cluster.
"""
