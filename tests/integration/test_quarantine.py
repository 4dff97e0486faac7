"""A partition whose copier really dies at each append of it: it is found, quarantined, and tried again."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Pair
from tests.harness.admin import create_topics
from tests.harness.compare import assert_identical, read_topic
from tests.harness.live import LiveMirror, write_properties
from tests.harness.load import append, numbered, producer
from tests.harness.ray_cluster import ray_env
from tests.harness.shell import ROOT
from tests.harness.variant import write_variant

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

TOPIC, COPIED, FLOW = "poisoned", "ill.poisoned", "ill->well"
PARTITIONS, RECORDS, GUILTY = 12, 40, 7
POISON = "poison"
"""While a file of this name lies beside the code, an append of the guilty partition is the process's last act."""
SEARCH_S = 400.0
DYING = f"""

def _dying(append):  # type: ignore[no-untyped-def]
    import os
    import pathlib

    poison = pathlib.Path(__file__).parents[3] / "{POISON}"

    def append_or_die(self, appends, on_outcomes):  # type: ignore[no-untyped-def]
        if poison.exists() and any(one.partition == ("{COPIED}", {GUILTY}) for one in appends):
            os._exit(3)
        append(self, appends, on_outcomes)

    return append_or_die


KafkaTargetBroker.append = _dying(KafkaTargetBroker.append)
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """Today's code, but for the poison."""
    folder = write_variant(ROOT, tmp_path / "code", {"engine/kafka/data/target.py": DYING})
    (folder / POISON).touch()
    return folder


@pytest.fixture
def live(cluster_pair: Pair, tmp_path: Path, code: Path) -> Iterator[LiveMirror]:
    clusters = {"ill": cluster_pair.source, "well": cluster_pair.target}
    asyncio.run(create_topics(cluster_pair.source, {TOPIC: PARTITIONS}))
    asyncio.run(fill(cluster_pair, first=0))
    settings = {"raymirror.copiers": "2", "tasks.max": "2"}
    config = write_properties(tmp_path / "mm2.properties", clusters, {FLOW: TOPIC}, settings)
    mirror = LiveMirror(tmp_path, config, env=ray_env(), code=code)
    yield mirror
    mirror.close()


async def fill(pair: Pair, first: int) -> None:
    """Append records to every partition, the guilty one's too."""
    async with producer(pair.source) as client:
        for partition in range(PARTITIONS):
            await append(client, TOPIC, partition, numbered(RECORDS, first=first))


async def copied(pair: Pair) -> dict[int, int]:
    """Count what is on the target, by partition."""
    return {partition: len(records) for partition, records in (await read_topic(pair.target, COPIED)).items()}


def test_one_partition_that_ends_its_copiers_is_left_alone_and_tried_again_when_asked(
    cluster_pair: Pair, live: LiveMirror, code: Path
) -> None:
    live.until(lambda: live.told("is in quarantine"), "the guilty partition is found", SEARCH_S)
    (told,) = live.told("is in quarantine")
    assert told.startswith(f"{TOPIC}-{GUILTY} ("), "it alone"
    assert "copiers in a row ended soon after taking it over; cause of the last end" in told
    live.until(lambda: len(live.flow(FLOW)["quarantined"]) == 1, "the status says so")

    asyncio.run(fill(cluster_pair, first=RECORDS))
    whole = dict.fromkeys(range(PARTITIONS), 2 * RECORDS)
    live.until(lambda: asyncio.run(copied(cluster_pair)) == {**whole, GUILTY: 0}, "all others are whole")
    ends = len(live.told(" ended"))

    (code / POISON).unlink()
    again = [sys.executable, "-m", "actors", "restart", FLOW]
    done = subprocess.run(again, env=live.env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    live.until(lambda: asyncio.run(copied(cluster_pair)) == whole, "it is copied too", SEARCH_S)
    live.until(lambda: not live.flow(FLOW)["quarantined"], "nothing is in quarantine")
    assert len(live.told(" ended")) == ends, "no copier has ended since"
    live.end()
    assert asyncio.run(assert_identical(cluster_pair.source, cluster_pair.target, TOPIC, COPIED)) == sum(whole.values())
