"""What a failback does to topics and lanes: configs that it changes for a while, and the exact end of a copy.

It may import the ports, policies and the core. Clusters come in as ports; what was found and changed goes out as values
that an operation stores before it goes on.
"""
