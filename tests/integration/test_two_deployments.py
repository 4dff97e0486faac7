"""One configuration started twice: on another Ray, where the target refuses the second one, and on the same Ray."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from tests.conftest import Pair
from tests.harness.admin import create_topics
from tests.harness.growing import GrowingMirror
from tests.harness.live import LiveMirror
from tests.harness.ray_cluster import RayCluster
from tests.harness.ray_temp import ray_temp_folder

pytestmark = [pytest.mark.integration, pytest.mark.ray]

PARTITIONS = 2
READY_S = 300.0
"""A Ray of its own takes most of it to start."""


@asynccontextmanager
async def first_mirror(pair: Pair, ray: RayCluster, folder: Path, alias: str) -> AsyncIterator[GrowingMirror]:
    """Run a mirror of one topic; the test ends it."""
    mirror = GrowingMirror(*pair, ray, folder, alias=alias, partitions=PARTITIONS)
    await create_topics(mirror.source, {mirror.topic: PARTITIONS})
    mirror.submit(copiers=1)
    try:
        yield mirror
    finally:
        mirror.close()


@contextmanager
def another_place() -> Iterator[dict[str, str]]:
    """An environment that knows of no Ray: `raymirror run` starts one of its own."""
    with ray_temp_folder() as folder:
        yield {key: value for key, value in os.environ.items() if not key.startswith("RAY_")} | {"TMPDIR": folder}


async def run_second(folder: Path, config: Path, *words: str, env: Mapping[str, str]) -> tuple[int, LiveMirror]:
    """Run the configuration from another state folder, so as another deployment, until it has ended by itself."""
    folder.mkdir()
    second = LiveMirror(folder, config, *words, env=env)
    try:
        code = await asyncio.to_thread(second.process.wait, READY_S)
    finally:
        second.close()
    second.look()
    return code, second


async def test_another_ray_stops_while_the_first_one_lives_and_goes_on_at_once_when_it_has_ended(
    cluster_pair: Pair, shared_ray: RayCluster, tmp_path: Path
) -> None:
    config = tmp_path / "mm2.properties"
    async with first_mirror(cluster_pair, shared_ray, tmp_path, "elsewhere") as first:
        with another_place() as env:
            async with first.growing():
                await first.until(lambda: first.is_shared_by(1), "it copies")
                owners, epochs = first.owners(), await first.all_epochs()
                code, second = await run_second(tmp_path / "second", config, env=env)
                await first.until_grown()
            assert code == 1, second.describe()
            assert f"flow {first.flow} belongs to mirror" in second.status["refused"]
            deployment = (tmp_path / "state" / "raymirror" / "deployment-id").read_text().strip()
            assert deployment in second.status["refused"]
            assert (first.owners(), await first.epochs()) == (owners, epochs)
            await asyncio.to_thread(first.live.end)
            third = LiveMirror(tmp_path / "second", config, env=env)
            try:
                resumed = "it has the partitions"
                await asyncio.to_thread(third.until, lambda: third.told("at source offset"), resumed, READY_S)
                third.end()
            finally:
                third.close()
            assert not third.told("sign of life"), "the flow was given back: there was nobody to wait for"


@pytest.mark.full
async def test_another_name_on_the_same_ray_is_refused(
    cluster_pair: Pair, shared_ray: RayCluster, tmp_path: Path
) -> None:
    config = tmp_path / "mm2.properties"
    async with first_mirror(cluster_pair, shared_ray, tmp_path, "beside-it") as first:
        await first.until(lambda: first.is_shared_by(1), "it copies")
        code, second = await run_second(tmp_path / "second", config, "--name", "other", env=shared_ray.env)
        assert code == 2
        assert f"flow {first.flow} is copied by mirror beside-it-calm on this Ray cluster" in second.said()
        await asyncio.to_thread(first.live.end)
