"""The systems a bench sets side by side, each started the way its users start it."""
