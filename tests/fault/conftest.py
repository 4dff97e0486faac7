"""Faults on separate clusters; RAYMIRROR_FAULT_RECORDS scales them, RAYMIRROR_FAULT_RESULTS stores the figures."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import EmbeddedCluster, running_clusters


@pytest.fixture(scope="session")
def record_count() -> int:
    """Records of one matrix: 200,000 unless told otherwise; the published run has 2,000,000."""
    return int(os.environ.get("RAYMIRROR_FAULT_RECORDS", "200000"))


@pytest.fixture(scope="session")
def figures() -> Iterator[dict[str, Any]]:
    """What the cases saw, by name; written as JSON at the end if a file is named."""
    found: dict[str, Any] = {}
    yield found
    if path := os.environ.get("RAYMIRROR_FAULT_RESULTS"):
        Path(path).write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedCluster, EmbeddedCluster]]:
    """Two clusters whose brokers may be killed, if they are up again at the end of the test."""
    folder = tmp_path_factory.mktemp("fault")
    eager = {"log.cleaner.backoff.ms": "100"}
    clusters = (
        EmbeddedCluster("source", folder / "source", overrides=eager),
        EmbeddedCluster("target", folder / "target"),
    )
    with running_clusters(*clusters):
        yield clusters
