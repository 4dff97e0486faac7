"""Connections to the brokers of both sides: inboxes fetch, outboxes append, the router assigns lanes to them.

In: lanes with room. Out: batches taken in, outcomes delivered. All memory for data is leased from one pool here.
"""
