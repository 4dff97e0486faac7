"""A mirror whose Spark, on RayDP, stores its history in a bucket: it is whole; copying goes on without the store."""

import asyncio
from pathlib import Path

import pytest

from deploy.local.jars import ensure_s3_jars, say_aloud
from engine.config.storage import Storage
from policies.model import FlowName
from tests.conftest import Pair
from tests.harness.lag_windows import before, expected, windows_of
from tests.harness.live import LiveMirror
from tests.harness.ray_cluster import ray_cluster
from tests.harness.s3_server import BUCKET, SECRET, s3_server
from tests.harness.store_path import store_path
from tests.integration.test_lag_history import WINDOW_MS, produce, remembered, until_next_window
from tests.integration.test_spark_faults import AGAIN_S

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

FLOW = FlowName("past-bucket", "present")
TOPIC = f"remembered-{FLOW.source}"
STORAGE = Storage.parse(f"s3a://{BUCKET}/mirror")
FIRST, SECOND = 50, 200


def until_kept(live: LiveMirror, pair: Pair) -> None:
    """Wait until the window that goes on now is over, and the bucket has every sample of it and of all before."""
    end_ms = until_next_window(live, pair.target, FLOW)

    def kept() -> bool:
        found = before(windows_of(STORAGE, FLOW), end_ms)
        return bool(found) and found == before(asyncio.run(expected(pair.target, FLOW, WINDOW_MS)), end_ms)

    live.until(kept, f"the history until {end_ms} is whole", AGAIN_S)


def test_a_mirror_keeps_its_history_in_a_bucket_and_copies_without_it(
    cluster_pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure_s3_jars(say_aloud)
    (tmp_path / "s3").mkdir()
    with s3_server(tmp_path / "s3") as server, store_path(server.port) as path:
        for name, value in server.environment(port=path.port).items():
            monkeypatch.setenv(name, value)
        with (
            ray_cluster(tmp_path / "ray", head_cpus=6) as ray,
            remembered(FLOW, cluster_pair, ray, tmp_path, {"raymirror.storage": STORAGE.uri}) as live,
        ):
            asyncio.run(produce(cluster_pair.source, TOPIC, FIRST))
            until_kept(live, cluster_pair)
            path.go_away()
            asyncio.run(produce(cluster_pair.source, TOPIC, SECOND))
            live.until_whole({str(FLOW): FIRST + SECOND})
            path.come_back()
            until_kept(live, cluster_pair)
            live.end()
            logs = [one for one in ray._temp.rglob("*") if one.is_file() and one.suffix in (".log", ".out", ".err")]
            assert logs
            assert not [one.name for one in logs if SECRET in one.read_text(errors="replace")]
