"""Lane drivers: one lane with its owner, leaders, health, attempts, streams and metrics.

In: outcomes and leaders. Out: batches for an outbox. A lane driver opens no broker connection.
"""
