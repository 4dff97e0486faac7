"""The configuration file as text: its kind, its properties with their lines, placeholders of providers.

In: bytes of a file. Out: keys and values with their places. It does not know what a key means.
"""
