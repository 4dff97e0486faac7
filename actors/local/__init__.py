"""Mirrors of this machine: state files, locks of living processes, notes of how one ended."""
