"""Mirrors of this machine: state files, locks of starting processes, end notes, and signals that end a command."""
