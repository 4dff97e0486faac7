"""The systems that a bench compares, each started as its users start it."""
