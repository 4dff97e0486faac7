"""Explains the parts of a file that raymirror itself does not read: MM2's keys, other tools' files, typing mistakes."""
