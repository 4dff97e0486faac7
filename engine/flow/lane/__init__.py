"""One lane with its surroundings: what it writes, what is in flight for it, how often it may fail, what is measured.

In: outcomes and leaders. Out: batches for an outbox. It knows no broker connection.
"""
