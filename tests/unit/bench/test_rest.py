"""Roles of the processes of a mirror at rest."""

import os
from pathlib import Path

import pytest

from bench.mappings import alone_bytes
from bench.processes import ProcessTree
from bench.rest import above_plain, has_windows, role_of
from engine.config.storage import Storage
from engine.jobs.lag.options import lag_table_uri
from engine.jobs.tables.catalog import LAG
from engine.jobs.tables.table import Table

RAYLET = (
    "/usr/lib/python3.11/site-packages/ray/core/src/ray/raylet/raylet --raylet_socket_name=/tmp/r"
    " --java_worker_command=java io.ray.runtime.runner.worker.DefaultWorker --head"
    " --dashboard_agent_command=python -u ray/dashboard/agent.py"
)


@pytest.mark.parametrize(
    ("command", "role"),
    [
        (RAYLET, "raylet"),
        ("/usr/lib/ray/core/src/ray/gcs/gcs_server --log_dir=/tmp/ray/logs", "gcs"),
        ("python -u /usr/lib/ray/dashboard/agent.py --node-id=1", "dashboard agent"),
        ("python -I -S /w/actors/ray/idle_agent.py /usr/lib/ray/dashboard/agent.py --node-id=1", "idle agent"),
        ("python -u /usr/lib/ray/_private/runtime_env/agent/main.py", "runtime env agent"),
        ("ray::SupervisorActor", "supervisor"),
        ("ray::CopierActor.attend", "copier"),
        ("java -cp /usr/lib/x.jar org.apache.spark.deploy.SparkSubmit pyspark-shell", "JVM driver"),
        ("java -Dspark.executor.extraJavaOptions=-Xmn64m io.ray.runtime.runner.worker.DefaultWorker", "JVM app master"),
        ("java -Xmn64m io.ray.runtime.runner.worker.DefaultWorker", "JVM executor"),
        ("/usr/bin/python -m actors run /tmp/mm2.properties", "run"),
        ("sleep 1", "other"),
    ],
)
def test_a_process_is_known_by_its_command_line(command: str, role: str) -> None:
    assert role_of(command) == role


def test_spark_at_rest_is_compared_with_a_mirror_without_it() -> None:
    plain, spark = {"cpu_percent": 5.0, "pss_mib": 500.0}, {"cpu_percent": 8.7, "pss_mib": 2006.0}
    assert above_plain({"plain": plain, "spark": spark}) == {
        "spark above plain cpu_percent": 3.7,
        "goal of spark above plain cpu_percent": 5.0,
        "spark above plain pss_mib": 1506.0,
        "goal of spark above plain pss_mib": 1638.4,
    }
    assert above_plain({"spark": spark}) == {}


def test_a_table_that_was_only_created_has_no_windows(tmp_path: Path) -> None:
    storage = Storage.of_folder(tmp_path)
    assert not has_windows(tmp_path)
    table = Table(lag_table_uri(storage), LAG)
    table.create()
    assert not has_windows(tmp_path)
    (tmp_path / "tables" / LAG.name / "_delta_log" / f"{1:020d}.json").touch()
    assert has_windows(tmp_path)


SMAPS = """\
55d0-55e0 r-xp {offset} 08:01 {inode}   /lib/x.so
Rss:       {rss} kB
Pss:          1 kB
Anonymous: {anonymous} kB
7f00-7f10 rw-p 00000000 00:00 0
Rss:       10 kB
Anonymous: 10 kB
"""


def test_a_file_that_two_processes_have_counts_once_and_what_they_wrote_twice(tmp_path: Path) -> None:
    for pid, file in enumerate([("0", 7, 50, 5), ("0", 7, 40, 0), ("0", 8, 3, 0), ("1000", 7, 2, 0)]):
        (tmp_path / str(pid)).mkdir()
        text = SMAPS.format(**dict(zip(("offset", "inode", "rss", "anonymous"), file, strict=True)))
        (tmp_path / str(pid) / "smaps").write_text(text)
    assert alone_bytes([0, 99], tmp_path) == 1024 * (50 + 10)
    assert alone_bytes([0, 1], tmp_path) == 1024 * (45 + 5 + 20)
    assert alone_bytes([0, 1, 2, 3], tmp_path) == 1024 * (45 + 5 + 3 + 2 + 40)


def test_proportional_memory_is_no_more_than_resident_memory() -> None:
    tree = ProcessTree(os.getpid())
    tree.discover()
    mine = frozenset(key for key in tree.living() if key[0] == os.getpid())
    assert "python" in tree.command(next(iter(mine)))
    assert 0 < tree.pss_bytes(mine) <= tree.rss_bytes(mine) + 64 * 1024 * 1024
