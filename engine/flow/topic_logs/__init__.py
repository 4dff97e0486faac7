"""Small internal topics, read and written as logs: state, events, checkpoints, maps, offset syncs, commits."""
