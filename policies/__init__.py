"""The rules of a mirror: the topics to copy, their names, their start offsets, config sync, placement. Without I/O."""
