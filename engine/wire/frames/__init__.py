"""Frames of lz4 and snappy as Kafka's clients write them.

The input is compressed or plain bytes of one batch, the output is the same bytes in the other form.
"""
