"""Connections to a cluster: bootstrap, handshake, metadata, coordinators, which brokers are away or silent."""
