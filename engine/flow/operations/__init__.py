"""Drives operations between two clusters, and keeps what is stored of them in the state topics of both.

Steps enter as objects with `do` and `undo`; records leave through `engine.flow.topic_logs.state_log`. It imports the
state machine of `policies.dr` and knows nothing of what a step does.
"""
