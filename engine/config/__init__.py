"""The configuration of a mirror as values, read from the keys of a file.

In: keys and values of `engine.config.file`. Out: `MirrorConfig`, immutable, or all errors at once with their lines.
It connects to no cluster. It imports the pure rules of `policies` and the types of its values.
"""
