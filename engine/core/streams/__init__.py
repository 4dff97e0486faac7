"""Streams that a lane writes beside its records: positions, map blocks, its transaction. One write in flight each."""
