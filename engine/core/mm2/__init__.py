"""The records that MM2's readers use (offset syncs, checkpoints, heartbeats), and the commits of consumers."""
