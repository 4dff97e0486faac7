"""Ownership of lanes: gives a lane an owner and the offset where it resumes, and handles failed appends.

Barrier, position, tail, vacancy, takeover from MM2, the rules for gaps and for other writers.

In: a lane without an owner, or one in trouble. Out: a lane that copies, or an event that says why it does not.
"""
