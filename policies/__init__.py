"""The rules of a mirror: the topics to copy, their names, and where from. Pure, without I/O."""
