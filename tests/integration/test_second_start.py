"""Two starts of one mirror at the same time: the second is refused, and the first can still be shown and stopped."""

import os
from pathlib import Path

import pytest

from actors.local import session
from actors.local.reservation import reserved
from deploy.local.cluster import EmbeddedCluster
from tests.harness.eventually import wait_until
from tests.harness.shell import Shell, write_config

pytestmark = [pytest.mark.integration, pytest.mark.ray]


def test_a_start_is_refused_while_another_process_has_the_name(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    shell = Shell(tmp_path)
    config = write_config(tmp_path, source_cluster, target_cluster, "nothing-yet")
    with reserved("raymirror-source-target", str(config), shell.env):
        for words in ((), ("--detach",), ("--name", "source-target")):
            done = shell("run", str(config), *words)
            assert done.returncode == 2, done.stderr
            assert f"mirror source-target is already being started by process {os.getpid()}" in done.stderr
            assert "starting Ray" not in done.stdout


@pytest.mark.full
def test_the_first_of_two_starts_is_seen_and_stopped(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    shell = Shell(tmp_path)
    config = write_config(tmp_path, source_cluster, target_cluster, "nothing-yet")
    first = shell.start("run", str(config))
    log = tmp_path / "run.log"
    wait_until(lambda: "starting Ray" in log.read_text(), "Ray is being started")
    second = shell("run", str(config))
    assert second.returncode == 2, second.stdout
    assert f"is already being started by process {first.pid}" in second.stderr
    shell.until(lambda status: status["phase"] == "running")
    third = shell("run", str(config), "--detach")
    assert third.returncode == 2
    assert f"already runs in process {first.pid}" in third.stderr
    assert shell("status").returncode == 0
    assert shell("stop").returncode == 0
    assert first.wait() == 0
    assert not list(session.folder(shell.env).glob("*.lock"))


@pytest.mark.full
def test_detach_fails_where_another_mirror_owns_the_flow(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    shell, elsewhere = Shell(tmp_path), Shell(tmp_path / "elsewhere")
    elsewhere.folder.mkdir()
    config = write_config(tmp_path, source_cluster, target_cluster, "nothing-yet")
    done = shell("run", str(config), "--detach")
    assert done.returncode == 0, done.stderr
    try:
        refused = elsewhere("run", str(config), "--detach")  # as another user, or on another host
        assert refused.returncode == 1, refused.stdout
        assert "flow source->target belongs to mirror 'raymirror-source-target'" in refused.stderr
    finally:  # a mirror that is left bars the flow to all tests behind this one
        assert shell("stop").returncode == 0
