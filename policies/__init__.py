"""What to copy, under which name, from where: the rules of a mirror, pure and without I/O."""
