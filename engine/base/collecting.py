"""Garbage collection of a process that copies: what lives as long as it does is not looked at again and again."""

import gc


def spare_what_lasts() -> None:
    """Take all objects of now out of later collections: modules, classes, what was read of the configuration.

    A full collection looks at every object and holds the loop up meanwhile: 15 to 30 ms for what a copier's
    process has imported. Called once, where a process has started and copies nothing yet.
    """
    gc.collect()
    gc.freeze()
