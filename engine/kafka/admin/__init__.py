"""Topics, configs, ACLs, quotas, disks and rights: read, tried without effect, and changed."""
