"""The configuration of a mirror as values, read from the keys of a file.

In: keys and values of `engine.config.file`. Out: `MirrorConfig`, immutable, or every mistake at once with its line.
It reads no cluster; it imports the pure rules of `policies` and the types that its values are made of.
"""
