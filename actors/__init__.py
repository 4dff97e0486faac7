"""Thin Ray shells around the engine, and the command line. Importing this package imports no Ray."""
