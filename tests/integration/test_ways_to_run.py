"""On a `ray start` cluster, with and without token authentication: the installed wheel, and jobs submitted as source.

Jobs with a token have a longer story of their own in `test_job_submit.py`.
"""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.demo.topics import create_topics
from deploy.local.cluster import EmbeddedCluster
from tests.conftest import Pair
from tests.harness.ray_cluster import RayCluster, ray_cluster
from tests.harness.shell import ROOT, Shell, copied, write_config
from tests.integration.test_job_submit import Story
from tests.integration.test_run_command import produce, same

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

IN_WHEEL = ("actors", "engine", "policies", "deploy", "pyproject.toml", "setup.py", "README.md", "LICENSE")
DEADLINE_S = 300.0


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel has, beside the packages of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    clean, target = folder / "source", folder / "installed"
    clean.mkdir()  # setuptools builds inside the tree it is given
    for name in IN_WHEEL:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, clean / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, clean)
    pip(folder, "wheel", "--no-build-isolation", "--wheel-dir", str(folder), str(clean))
    (wheel,) = folder.glob("raymirror-*.whl")
    pip(folder, "install", "--target", str(target), str(wheel))
    shutil.rmtree(clean)
    return target


def pip(folder: Path, command: str, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", command, "--no-index", "--no-deps", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module", params=[False, True], ids=["open", "token"])
def cluster(
    request: pytest.FixtureRequest, installed: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RayCluster]:
    """A head and a node of one CPU; their packages of ours are those of the wheel."""
    folder = tmp_path_factory.mktemp("ways")
    with ray_cluster(folder, [1], token=request.param, dashboard=not request.param, code=installed) as made:
        yield made


def shell_of(cluster: RayCluster, folder: Path) -> Shell:
    """A shell that has never heard of the mirror, in a folder of its own."""
    folder.mkdir()
    shell = Shell(folder)
    shell.env |= cluster.env
    return shell


def test_the_installed_command_starts_a_mirror_that_any_shell_sees_and_stops(
    cluster: RayCluster, installed: Path, cluster_pair: Pair, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source, target = cluster_pair
    topic = f"wheel-{request.node.callspec.id}"
    asyncio.run(create_topics(source.bootstrap_servers, {topic: 2}))
    produce(source, topic, 1000)
    starter, other = (shell_of(cluster, tmp_path / name) for name in ("starter", "other"))
    config = write_config(starter.folder, source, target, topic)

    command = [str(installed / "bin" / "raymirror"), "run", str(config), "--name", "wheel", "--detach"]
    done = subprocess.run(
        command, env=starter.env, cwd=starter.folder, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    other.until(copied(1000))
    assert same(source, target, topic)
    copiers = [one for node in cluster.nodes for one in node.workers() if "ray::CopierActor" in "".join(one.cmdline())]
    assert [one.environ()["PYTHONPATH"].partition(":")[0] for one in copiers] == [str(installed)]
    assert other("stop").returncode == 0
    assert other("status").returncode == 3


@pytest.mark.parametrize("cluster", [False], indirect=True, ids=["open"])
def test_a_job_is_submitted_stopped_and_submitted_again_where_no_token_is_asked_for(
    cluster: RayCluster, source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    story = Story(cluster, tmp_path, source_cluster, target_cluster)
    asyncio.run(create_topics(source_cluster.bootstrap_servers, {"open-job": 2}))
    produce(source_cluster, "open-job", 1000)
    story.submit("open-first", "open-job")
    story.shell.until(copied(1000))
    story.cluster.ray("job", "stop", "open-first")
    assert story.shell("status").returncode == 3, story.logs("open-first")
    produce(source_cluster, "open-job", 1000, first=1000)
    story.submit("open-second", "open-job")
    story.shell.until(copied(2000))
    assert same(source_cluster, target_cluster, "open-job")
    assert story.shell("stop").returncode == 0
    assert story.shell("status").returncode == 3
