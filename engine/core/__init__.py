"""Events in, actions out: the decisions of the copy, without await, clock or log.

Its packages import only `policies`, `engine.wire`, `engine.base.errors` and each other; `engine.flow` performs what
they decide.
"""
