"""Small batches that become large ones: finds stretches of regular batches, and merges consecutive batches into one.

The input is the bytes of one fetched partition, the output are stretches and batches for the target. It imports the
other modules of `engine.wire`; none of them imports it.
"""
