"""Capabilities of a cluster's brokers: a table, and a probe that reads them. The probe changes nothing."""
