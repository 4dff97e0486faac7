"""The history of lag in a bucket: a slow store, one that is away, and a killed host lose and double no window."""

import threading
from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster
from engine.config.storage import Storage
from tests.harness.s3_server import BUCKET, SECRET, s3_server
from tests.harness.store_path import store_path
from tests.integration.test_lag_query import GONE, Story

pytestmark = [pytest.mark.integration, pytest.mark.full]

DELAY_S, AWAY_S = 0.01, 10.0


async def test_a_store_that_is_slow_and_away_loses_and_doubles_no_window(
    source_cluster: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s3").mkdir()
    with s3_server(tmp_path / "s3") as server, store_path(server) as path:
        for name, value in server.environment(port=path.port).items():
            monkeypatch.setenv(name, value)
        story = Story(source_cluster, tmp_path, "lag-bucket", 4, Storage.parse(f"s3a://{BUCKET}/mirror"))
        path.slow(DELAY_S)
        wanted = await story.more()
        with story.host():
            story.until_read(wanted)
            path.go_away()
            wanted = await story.more()
            threading.Event().wait(AWAY_S)  # so long the store is away
            path.come_back()
            story.until_read(wanted)
        wanted = await story.more()
        with story.host():  # another host continues from the checkpoint in the bucket
            story.until_read(wanted)
            story.until_read(await story.more())
            await story.until_newest()
        assert GONE not in story.said()
        assert SECRET not in story.said()
