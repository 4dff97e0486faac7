"""`raymirror reload FILE` with the file of a mirror that does not run, while another mirror does."""

from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.harness.admin import create_topics
from tests.harness.load import numbered, produce
from tests.harness.operator import Operator

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]


async def test_it_is_refused_and_the_running_mirror_goes_on(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    (tmp_path / "gone").mkdir()
    one = Operator(tmp_path, "goeson", source_cluster, target_cluster)
    gone = Operator(tmp_path / "gone", "hasended", source_cluster, target_cluster)
    gone.shell = one.shell  # the same person on the same machine
    for each in (one, gone):
        await create_topics(source_cluster, {each.topic: 1})
        await produce(source_cluster, each.topic, 0, numbered(20))
    try:
        await gone.runs(gone.config, 20)
        await gone.stops()
        await one.runs(one.config, 20)
        for words in ((), ("--dry-run",)):
            done = await one.gives("reload", str(gone.config), *words)
            assert done.returncode == 3, done.stdout + done.stderr
            assert "no mirror runs" in done.stderr
            assert f"raymirror run {gone.config}" in done.stderr
            assert "added" not in done.stdout
        await produce(source_cluster, one.topic, 0, numbered(20, first=20))
        await one.has_copied(40)
        assert [flow["flow"] for flow in one.shell.status()["flows"]] == [one.flow]
        done = await one.gives("reload", str(one.config), "--dry-run")
        assert done.returncode == 0, done.stderr
    finally:
        one.close()
