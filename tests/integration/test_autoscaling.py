"""The cluster of `deploy/ray/cluster.yaml` grows when actors wait for a CPU and shrinks when they are gone."""

import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.fake_cloud import FakeCloud, fake_cloud

pytestmark = [pytest.mark.integration, pytest.mark.ray]

DEADLINE_S = 120.0


class Demand:
    """One-CPU actors, as a fleet of copiers asks for them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def set(self, actors: int) -> None:
        """Hold so many, and wait until all of them answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{actors}\n")
        self._process.stdin.flush()
        assert select.select([self._process.stdout], [], [], DEADLINE_S)[0], f"{actors} actors did not all start"
        assert self._process.stdout.readline() == f"{actors}\n"


@contextmanager
def demand(cloud: FakeCloud) -> Iterator[Demand]:
    with (cloud.folder / "demand.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.ray_demand", cloud.address],
            env=cloud.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        yield Demand(process)
    finally:
        process.kill()
        process.communicate()


def test_actors_that_wait_make_nodes_and_nodes_without_actors_go(tmp_path: Path) -> None:
    with fake_cloud(tmp_path, cpus=2) as cloud, demand(cloud) as actors:
        assert cloud.fewest == 1
        actors.set(3)
        assert len(cloud.nodes()) == 2, "three one-CPU actors take two nodes of two CPUs; the head takes none"
        actors.set(5)
        nodes = cloud.until_nodes(3)
        assert all(node.resources["raymirror_java"] == 1 for node in nodes)
        actors.set(0)
        cloud.until_nodes(cloud.fewest)
