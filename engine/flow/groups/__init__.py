"""Consumer groups: offsets translated to the target, committed where that is safe, and back after a failover."""
