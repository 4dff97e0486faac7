"""The demo's folder and configuration: with and without Spark, kept or deleted."""

import shutil
import tempfile
from pathlib import Path

import pytest

from actors.demo import stage
from actors.demo.stage import FLOW, SPARK_MEMORY_MIB, open_stage
from actors.observability.view import JsonView
from actors.spark.standing_jobs import lag_job, standing_jobs
from engine.config.config import load_config
from engine.config.settings import MirrorConfig


class Cluster:
    """A cluster that never runs."""

    def __init__(self, name: str, _folder: Path) -> None:
        self.bootstrap_servers = f"{name}:9092"


class Said(JsonView):
    """A view that remembers the text."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture(autouse=True)
def _no_clusters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(stage, "EmbeddedCluster", Cluster)
    monkeypatch.setattr(stage, "_deaf", lambda: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def config_of(*, spark: bool) -> MirrorConfig:
    with open_stage(Said(), keep=False) as opened:
        return load_config(opened.write_config(spark=spark))


def test_without_spark_the_configuration_is_one_of_mirrormaker_2() -> None:
    config = config_of(spark=False)
    assert (config.spark.on, config.storage) == (False, None)
    assert [flow.name for flow in config.flows] == [FLOW]


def test_with_spark_one_small_executor_keeps_the_lag_of_the_flow() -> None:
    config = config_of(spark=True)
    assert (config.spark.on, config.spark.executors) == (True, 1)
    assert config.spark.memory_bytes == SPARK_MEMORY_MIB * 1024 * 1024
    assert lag_job(FLOW) in {job.name for job in standing_jobs(config)}


@pytest.mark.parametrize(
    ("asked", "later", "is_kept"), [(False, False, False), (True, False, True), (False, True, True)]
)
def test_the_folder_is_deleted_unless_it_is_kept(asked: bool, later: bool, is_kept: bool) -> None:
    view = Said()
    with open_stage(view, asked) as opened:
        if later:
            opened.keep()
    assert opened.folder.exists() == is_kept
    assert view.lines == ([f"data and logs are in {opened.folder}"] if is_kept else [])


def test_after_an_error_the_folder_is_kept() -> None:
    view = Said()
    with pytest.raises(RuntimeError), open_stage(view, keep=False) as opened:
        raise RuntimeError
    assert opened.folder.exists()
    shutil.rmtree(opened.folder)
