"""Recognises files of other tools, and says what a user probably meant."""
