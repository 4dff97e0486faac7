"""Reads the settings of Kafka's clients that mean the same here: how a cluster is reached, and wishes for batches.

In: the keys of consumers, producers and admin clients (`engine/config/flow_keys.py`). Out: a `ClientTuning` per cluster
of a flow and kind of client, and the codec and hints for batches.
"""
