"""How the mirror recovers from faults, measured from outside."""
