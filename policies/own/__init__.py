"""Policies and filters that a Python package provides in place of MM2's Java classes (docs/policies.md).

`protocols.py` says what they must have, `kit.py` tests them, `own_policy.py` and `own_naming.py` use them.
"""
