"""Starts two clusters of one broker each, and a folder, for the time of a bench."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.local.cluster import EmbeddedCluster, running_clusters


@contextmanager
def cluster_pair() -> Iterator[tuple[EmbeddedCluster, EmbeddedCluster, Path]]:
    """Start a source and a target; stop both, and remove the folder, whatever happens. Raises ClusterError."""
    with tempfile.TemporaryDirectory(prefix="raymirror-bench-") as name:
        folder = Path(name)
        source, target = EmbeddedCluster("source", folder / "source"), EmbeddedCluster("target", folder / "target")
        with running_clusters(source, target):
            yield source, target, folder
