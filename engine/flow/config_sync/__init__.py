"""Keeps topic configs and ACLs of the target in step: reads both clusters, plans, applies, and audits each change."""
