"""The history of lag in a bucket: a store that is slow, throttled and away for a minute loses and doubles no window."""

import threading
from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster
from engine.config.storage import Storage
from tests.harness.lag_host import Bucket
from tests.harness.s3_server import BUCKET, SECRET, s3_server
from tests.harness.store_path import store_path
from tests.integration.test_lag_query import BUCKET_DEADLINE_S, GONE, Story

pytestmark = [pytest.mark.integration, pytest.mark.full]

DELAY_S, ONE_IN, AWAY_S = 0.01, 7, 60.0
COMMIT = f"PUT /{BUCKET}/mirror/tables/lag/_delta_log/".encode()


async def test_a_store_that_is_throttled_and_away_for_a_minute_loses_and_doubles_no_window(
    source_cluster: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s3").mkdir()
    with s3_server(tmp_path / "s3") as server, store_path(server.port) as path:
        for name, value in server.environment().items():  # this test reads at the store itself
            monkeypatch.setenv(name, value)
        bucket = Bucket(Storage.parse(f"s3a://{BUCKET}/mirror"), server.environment(port=path.port))
        story = Story(source_cluster, tmp_path, "lag-bucket", 5, bucket)
        path.slow(DELAY_S)
        path.throttle(ONE_IN)
        wanted = await story.more()
        with story.host():
            story.until_read(wanted)
            path.go_away_after(COMMIT)  # the commit counts, and its writer does not learn it
            wanted = await story.more()
            path.wait_gone(BUCKET_DEADLINE_S)
            threading.Event().wait(AWAY_S)  # so long the store is away
            assert path.turned_away > 0
            path.come_back()
            story.until_read(wanted)
            story.until_read(await story.more())
        wanted = await story.more()
        with story.host():  # another host continues from the checkpoint in the bucket
            story.until_read(wanted)
            story.until_read(await story.more())
            await story.until_newest()
        assert path.refused > 0
        assert GONE not in story.said()
        assert SECRET not in story.said()
