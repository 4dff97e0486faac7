"""A copier process frozen past its lease: its sets continue on other copiers, and it writes nothing after it thaws."""

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.harness.admin import create_topics
from tests.harness.growing import GrowingMirror
from tests.harness.ray_cluster import ray_cluster

pytestmark = [pytest.mark.fault, pytest.mark.full, pytest.mark.ray]

PARTITIONS = 40


async def test_a_copier_frozen_past_its_lease_is_replaced_and_thawed(
    pair: tuple[EmbeddedCluster, EmbeddedCluster], tmp_path: Path, figures: dict[str, Any]
) -> None:
    with ray_cluster(tmp_path / "ray", head_cpus=4) as ray:
        mirror = GrowingMirror(*pair, ray, tmp_path, alias="frozen", partitions=PARTITIONS)
        await create_topics(mirror.source, {mirror.topic: PARTITIONS})
        mirror.submit(copiers=2)
        try:
            async with mirror.growing():
                await mirror.until(lambda: mirror.is_shared_by(2), "two copiers share the partitions")
                before, owners = await mirror.epochs(), mirror.owners()
                victim, *_ = mirror.processes("CopierActor")
                victim.send_signal(signal.SIGSTOP)
                await mirror.until(
                    lambda: mirror.is_shared_by(2) and mirror.owners().keys() != owners.keys(), "it is replaced"
                )
                (gone,) = owners.keys() - mirror.owners().keys()
                moved = await mirror.partitions_of(owners[gone])
                with contextlib.suppress(psutil.NoSuchProcess):  # Ray may have ended it already
                    victim.send_signal(signal.SIGCONT)
                await mirror.until_grown(25)
                await asyncio.to_thread(psutil.wait_procs, [victim], timeout=60)
            after = await mirror.epochs()
            assert moved
            assert all(after[number] > before[number] for number in moved)
            assert not victim.is_running(), "what was replaced is ended, thawed or not"
            figures["copier frozen past its lease"] = {"records": mirror.sent, "told": mirror.live.told(gone)}
            mirror.live.end()
        finally:
            mirror.close()
