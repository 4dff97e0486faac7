"""Reads, tests and changes topics, configs, ACLs, quotas, disks and rights."""
