"""The ports of the flow, filled with real brokers; the only importer of aiokafka.

`gateway` is the way in: one cluster as `engine.flow.ports` wants it.
Its packages: protocol, client, data, admin, groups.
"""
