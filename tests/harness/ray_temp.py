"""A folder for a Ray's files that is removed after the test."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ray_temp_folder() -> Iterator[str]:
    """Make one: below /tmp, because Ray's unix sockets lie in it and their paths must be short."""
    with tempfile.TemporaryDirectory(prefix="fr-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield folder
