"""The settings of a Spark session, and the code that it gets."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.config.secrets import SECRET_KEYS
from engine.jobs.runtime.kafka_options import PREFIX
from engine.jobs.runtime.session import executor_java, spark_conf, zip_code

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_settings_name_jars_and_scratch_and_let_others_win(tmp_path: Path) -> None:
    conf = spark_conf(jars=[Path("/a.jar"), Path("/b.jar")], scratch=tmp_path, more={"spark.ui.enabled": "true"})
    assert conf["spark.jars"] == "/a.jar,/b.jar"
    assert conf["spark.local.dir"] == str(tmp_path)
    assert conf["spark.sql.shuffle.partitions"] == "2"
    assert conf["spark.ui.enabled"] == "true"
    assert '<pool name="stream">' in (tmp_path / "pools.xml").read_text()
    assert conf["spark.driver.extraJavaOptions"].startswith("-XX:+IgnoreUnrecognizedVMOptions --add-opens=java.base/")


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_spark_hides_options_that_hold_a_secret(tmp_path: Path, key: str) -> None:
    """Spark prints options in its plans (SaveIntoDataSourceCommand); by default it knows no login of Kafka's."""
    conf = spark_conf(jars=[], scratch=tmp_path)
    assert re.search(conf["spark.redaction.regex"], f"{PREFIX}{key}")
    assert not re.search(conf["spark.redaction.regex"], f"{PREFIX}bootstrap.servers")


def test_a_small_executor_has_a_small_young_generation_and_a_large_one_what_java_chooses() -> None:
    assert executor_java(2, 1024**3) == "-XX:+UseSerialGC -Xmn64m"
    assert executor_java(4, 1024**3) == ""
    assert executor_java(1, 8 * 1024**3) == ""


@pytest.mark.local
def test_the_archive_holds_both_packages_and_python_imports_from_it(tmp_path: Path) -> None:
    archive = zip_code(tmp_path)
    with zipfile.ZipFile(archive) as made:
        names = set(made.namelist())
    assert {
        "engine/__init__.py",
        "engine/wire/batch.py",
        "policies/naming.py",
        "engine/jobs/runtime/session.py",
    } <= names
    script = (
        f"import sys; sys.path[:] = [{str(archive)!r}, *sys.path[1:]]; import policies.naming as n; print(n.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert done.stdout.startswith(str(archive))


@pytest.mark.local
def test_importing_what_all_jobs_need_imports_no_spark(tmp_path: Path) -> None:
    root = Path(__file__).parents[5]
    script = (
        "import sys, engine.jobs.runtime.session, engine.config.storage; print({'pyspark', 'ray'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=root, check=True)
    assert done.stdout.strip() == "set()"


def test_a_local_session_reads_what_it_wrote_and_knows_kafka(spark: "SparkSession", tmp_path: Path) -> None:
    path = f"file:{tmp_path}/a b/numbers"
    spark.range(5).selectExpr("id", "id % 2 = 0 as even").write.parquet(path)
    assert spark.read.parquet(path).where("even").count() == 3
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1").option("subscribe", "t").load()
    assert {"topic", "partition", "offset", "key", "value", "timestampType"} <= set(source.columns)
