"""A switchover: its steps, and what they ask of the clusters and of the mirror that copies the flow.

The mirror enters as a `FlowControl`, because this package knows no Ray. Results leave as facts and notes of the
operation.
"""
