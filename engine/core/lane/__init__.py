"""The state machine of one partition's copy: batches wait, go out in order, are acknowledged, or fail.

In: batches of the source, outcomes of appends. Out: batches to append, and actions for `engine.flow.ownership`.
"""
