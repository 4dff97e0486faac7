"""The state machine of one lane: batches wait, are sent in order, and are acknowledged or fail.

Input: batches of the source, outcomes of appends. Output: batches to append, and actions for `engine.flow.ownership`.
"""
