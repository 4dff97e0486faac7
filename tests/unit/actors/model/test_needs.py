"""Resources that copiers request from Ray's nodes."""

from pathlib import Path

import pytest

from actors.model.needs import PROCESS_BYTES, memory_of, needs_of, sites_of
from actors.ray.launch import SPARE_CPUS, plan_launch
from engine.config.config import load_config

MIB = 1024 * 1024


def write(tmp_path: Path, *more: str) -> Path:
    path = tmp_path / "mm2.properties"
    lines = ("clusters = A, B", "A.bootstrap.servers = a:1", "B.bootstrap.servers = b:1", "A->B.enabled = true", *more)
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize(
    ("mib", "asked"), [(8, 0), (64, 0), (65, PROCESS_BYTES + 65 * MIB), (4096, PROCESS_BYTES + 4096 * MIB)]
)
def test_more_than_the_usual_buffers_are_asked_for(tmp_path: Path, mib: int, asked: int) -> None:
    config = load_config(write(tmp_path, f"raymirror.copier.memory.bytes = {mib * MIB}"))
    assert memory_of(config.flows[0]) == asked


def test_a_local_ray_has_room_for_every_copier_and_its_spares(tmp_path: Path) -> None:
    path = write(tmp_path, "tasks.max = 3", f"raymirror.copier.memory.bytes = {1024 * MIB}")
    plan = plan_launch(path, load_config(path), address=None)
    assert plan.memory == (3 + SPARE_CPUS) * (PROCESS_BYTES + 1024 * MIB)
    assert plan.spark_cpus == 0
    usual = write(tmp_path, "tasks.max = 3")
    assert plan_launch(usual, load_config(usual), address=None).memory == 0, "what Ray finds is taken"


def test_a_local_ray_has_room_for_executors_where_spark_is_on(tmp_path: Path) -> None:
    sizes = ("raymirror.spark.executors = 3", "raymirror.spark.executor.cores = 2")
    path = write(tmp_path, *sizes, "raymirror.spark = on")
    plan = plan_launch(path, load_config(path), address=None)
    assert (plan.spark_cpus, plan.memory) == (6, 3 * 1024 * MIB)
    off = write(tmp_path, *sizes)
    assert plan_launch(off, load_config(off), address=None).spark_cpus == 0


def test_copiers_ask_for_the_site_of_the_cluster_that_they_must_be_near(tmp_path: Path) -> None:
    anywhere = load_config(write(tmp_path))
    assert [needs.site for needs in needs_of(anywhere).values()] == [""]
    assert sites_of(anywhere) == ()
    near = load_config(
        write(tmp_path, "B->A.enabled = true", "B.raymirror.site = west", "raymirror.copiers.near = target")
    )
    assert {str(flow): needs.site for flow, needs in needs_of(near).items()} == {"A->B": "west", "B->A": "A"}
    assert sites_of(near) == ("A", "west")


def test_a_local_ray_is_in_every_site(tmp_path: Path) -> None:
    path = write(tmp_path, "B.raymirror.site = west", "raymirror.copiers.near = target")
    assert plan_launch(path, load_config(path), address=None).sites == ("west",)
