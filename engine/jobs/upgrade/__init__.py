"""Moves what earlier versions stored in formats of their own into the tables, once: `raymirror tables convert`."""
