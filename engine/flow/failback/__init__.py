"""Changes topic configs for a while, and finds the exact end of a copy, for a failback.

It may import the ports, policies and the core. Clusters come in as ports; what was found and changed goes out as values
that an operation stores before it goes on.
"""
