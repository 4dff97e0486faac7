"""Keys of Spark: defaults, values, refusals."""

import pytest

from engine.base.errors import ConfigError
from engine.config.settings import ProofConfig, SparkConfig
from tests.unit.engine.config_files import mirror


def test_spark_is_off_unless_the_file_says_otherwise() -> None:
    assert mirror().spark == SparkConfig(on=False, executors=1, cores=2, memory_bytes=1024**3)


def test_who_says_how_many_executors_gets_them_with_one_core_each() -> None:
    assert (
        mirror("raymirror.spark.executors = 2\n").spark.executors,
        mirror("raymirror.spark.executors = 2\n").spark.cores,
    ) == (2, 1)
    assert mirror("raymirror.spark.executor.cores = 4\n").spark.executors == 1


def test_where_spark_has_a_storage_copiers_write_samples_unless_the_file_says_otherwise() -> None:
    on, storage = "raymirror.spark = on\n", "raymirror.storage = file:/var/lib/raymirror\n"
    said = "raymirror.progress.interval.seconds = {}\n"
    texts = ["", on, storage, on + storage, *(on + storage + said.format(value) for value in (0, 7))]
    assert [mirror(text).flows[0].progress_s for text in texts] == [0, 0, 0, 5, 0, 7]


def test_every_key_is_read() -> None:
    config = mirror(
        "raymirror.spark = on\n"
        "raymirror.spark.executors = 3\n"
        "raymirror.spark.executors.idle.seconds = 5\n"
        "raymirror.spark.executor.cores = 2\n"
        "raymirror.spark.executor.memory.bytes = 536870912\n"
        "raymirror.spark.jars = /opt/a.jar, /opt/b.jar\n"
        "raymirror.storage.shared = true\n"
    )
    assert config.spark == SparkConfig(
        on=True,
        executors=3,
        idle_s=5.0,
        cores=2,
        memory_bytes=536870912,
        jars=("/opt/a.jar", "/opt/b.jar"),
        shared=True,
    )
    assert not [warning for warning in config.warnings if "raymirror." in str(warning)]


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("raymirror.spark = true", "'true' is neither on nor off; write on or off"),
        ("raymirror.spark.executors = 0", "out of range"),
        ("raymirror.spark.executors.idle.seconds = -1", "out of range"),
        ("raymirror.spark.executor.cores = x", "is not a number"),
        ("raymirror.spark.executor.memory.bytes = 1000", "out of range"),
        ("raymirror.spark.jars = a.jar", "'a.jar' is not an absolute path of a jar"),
        ("raymirror.spark.jars = /opt/jars", "is not an absolute path of a jar"),
        ("raymirror.storage.shared = yes", "neither true nor false"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_line(line: str, wrong: str) -> None:
    with pytest.raises(ConfigError) as raised:
        mirror(line + "\n")
    assert wrong in str(raised.value)
    assert raised.value.line > 0
    assert line.split(" = ")[0] == raised.value.key


def test_copies_are_proven_all_the_time_if_the_file_says_so() -> None:
    assert mirror().proof == ProofConfig(on=False, interval_s=300.0)
    on = "raymirror.spark = on\nraymirror.storage = file:/s\nraymirror.proof = on\n"
    assert mirror(on).proof == ProofConfig(on=True, interval_s=300.0)
    config = mirror(on + "raymirror.proof.interval.seconds = 7\n")
    assert config.proof.interval_s == 7.0
    assert not [warning for warning in config.warnings if "raymirror." in str(warning)]


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ("raymirror.proof = yes", "'yes' is neither on nor off"),
        ("raymirror.proof = on", "raymirror.spark is off"),
        ("raymirror.spark = on\nraymirror.proof = on", "no raymirror.storage is set to store"),
        ("raymirror.proof.interval.seconds = 0", "out of range"),
    ],
)
def test_a_proof_that_cannot_be_is_refused(lines: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong) as raised:
        mirror(lines + "\n")
    assert raised.value.key.startswith("raymirror.proof")
