"""Positions: how far a partition is copied (MM2's record, our fields); where a new owner resumes, by the target log."""
