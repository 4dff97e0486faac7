"""The rules for configs, ACLs, quotas and faults of topics."""
