"""Connections to a cluster: bootstrap, handshake, metadata, coordinators, unreachable and silent brokers."""
