"""Wrong names for Spark in the file: refused with the right value, until the file is correct."""

import zipfile
from pathlib import Path

import pytest

from tests.conftest import Pair
from tests.harness.ray_cluster import RayCluster
from tests.integration.test_spark import READY_S, start_probe, told
from tests.integration.test_spark_faults import copy_some, mirror_of, spark_is

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.fault, pytest.mark.full]


def test_what_the_file_names_wrongly_is_told_until_it_is_right(
    cluster_pair: Pair, shared_ray: RayCluster, tmp_path: Path
) -> None:
    jar, kept = tmp_path / "more.jar", tmp_path / "kept"
    kept.touch()
    settings = {"raymirror.spark.jars": str(jar), "raymirror.storage": f"file:{kept}"}
    with mirror_of("misnamed", cluster_pair, shared_ray, tmp_path, **settings) as live:
        probe = start_probe(shared_ray.env, tmp_path, tasks=1, task_s=0)
        live.until(spark_is(live, "refused", f"raymirror.spark.jars names {jar}"), "the jar is missed", READY_S)
        copy_some(cluster_pair, live, "misnamed")
        with zipfile.ZipFile(jar, "w") as made:
            made.writestr("a.txt", "a")
        live.until(spark_is(live, "refused", f"raymirror.storage: {kept} cannot be written"), "so is it", READY_S)
        copy_some(cluster_pair, live, "misnamed")
        kept.unlink()
        assert len(told(probe).answers) == 1, "what waited runs"
        live.until(spark_is(live, "ready"), "it is ready", READY_S)
