"""The script that fills an image, run into an empty folder, and the command that it installs there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster
from deploy.local.jar_list import listed_jars
from tests.harness.shell import write_config

pytestmark = [pytest.mark.integration, pytest.mark.full]

CLONE = Path(__file__).parents[2]
INSTALL_DEADLINE_S = 3600.0
DEADLINE_S = 120.0


class Installed:
    """What the script left in `prefix`. Commands run from a foreign folder, with nothing of the clone in their way."""

    def __init__(self, prefix: Path, foreign: Path) -> None:
        self.prefix, self.foreign = prefix, foreign

    def shell(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line in a login shell that knows the prefix as an image's does."""
        return subprocess.run(
            ["bash", "-c", f". {self.prefix}/profile.sh; {line}"],
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.foreign), "LANG": "C.UTF-8"},
            cwd=self.foreign,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

    def said(self, line: str) -> str:
        """Run a line that must end well and return what it printed."""
        done = self.shell(line)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    prefix, foreign = tmp_path_factory.mktemp("image") / "opt", tmp_path_factory.mktemp("foreign")
    done = subprocess.run(
        [CLONE / "deploy" / "image" / "install.sh", prefix, "--extra", CLONE / "deploy" / "image" / "aws.lock"],
        env={**os.environ, "PYTHON": sys.executable},
        cwd=foreign,
        capture_output=True,
        text=True,
        timeout=INSTALL_DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Installed(prefix, foreign)


def test_the_command_is_the_installed_wheel_and_not_the_clone(installed: Installed) -> None:
    assert "usage: raymirror" in installed.said("raymirror --help")
    place = installed.said("python -c 'import actors, engine, policies, deploy; print(actors.__file__)'").strip()
    assert Path(place).is_relative_to(installed.prefix / "venv")
    assert not list((installed.prefix / "venv").rglob("__editable__*"))


def test_a_configuration_is_checked_against_real_clusters_from_a_foreign_folder(
    installed: Installed, source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster
) -> None:
    config = write_config(installed.foreign, source_cluster, target_cluster, "image-.*")
    done = installed.shell(f"raymirror check {config.name}")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_jars_are_those_of_the_lists_and_are_found_without_fetching(installed: Installed) -> None:
    (folder,) = (installed.prefix / "cache").glob("jars-*")
    assert {path.relative_to(folder) for path in folder.rglob("*.jar")} == {
        jar.path for jar in listed_jars("kafka") + listed_jars("spark")
    }
    line = "python -c 'from deploy.local.jars import spark_jar_paths; print(len(spark_jar_paths()))' 2>&1"
    assert installed.said(line) == "4\n", "a line about fetching would stand before the number"


def test_nothing_of_the_tests_and_linters_is_there(installed: Installed) -> None:
    there = {line.partition("==")[0].lower() for line in installed.said("python -m pip freeze").splitlines()}
    left_out = (CLONE / "deploy" / "image" / "dev-only.txt").read_text().split()
    assert not there & set(left_out)
    assert {"ray", "pyspark", "aiokafka", "boto3"} <= there


def test_rays_autoscaler_finds_its_cloud(installed: Installed) -> None:
    installed.said("python -c 'import ray.autoscaler._private.aws.node_provider'")


def test_a_node_starts_with_the_installed_script_or_says_why_not(installed: Installed) -> None:
    done = installed.shell("start-node.sh --head")
    assert done.returncode == 2
    assert "no token" in done.stderr
