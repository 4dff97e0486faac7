"""Encodes and decodes MM2's records (offset syncs, checkpoints, heartbeats) and decodes commits of consumers."""
