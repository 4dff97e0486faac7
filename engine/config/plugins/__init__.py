"""Policies and filters that Python packages provide, in place of MM2's Java classes (docs/policies.md).

In: the class name in the file, which is the name of an entry point of the group `raymirror.policies`. Out: an
`OwnPolicy` for the rules in `policies`.
"""
