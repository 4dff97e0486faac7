"""Positions: how far a partition is copied, stored as MM2's records, and where a new owner resumes."""
