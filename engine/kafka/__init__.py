"""The ports of the flow on real brokers; the only package that imports aiokafka.

`gateway` is the entrance: one cluster behind the ports of `engine.flow.ports`.
Its packages: protocol, client, data, admin, groups.
"""
