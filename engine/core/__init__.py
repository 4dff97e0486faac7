"""Makes the decisions of the copy: it takes events and returns actions, without await, clock or log.

Its packages import only `policies`, `engine.wire`, `engine.base.errors` and each other; `engine.flow` performs the
actions.
"""
