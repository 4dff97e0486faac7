"""Spark takes part in the demo if there is memory and a Java for it; else the reason is said."""

import pytest

from actors.demo import spark_choice
from actors.demo.spark_choice import LEAST_MEMORY_GIB, why_without_spark
from deploy.local.errors import ClusterError
from deploy.preflight import GIB


def no_java() -> None:
    raise ClusterError("no Java 17 to 21", "/usr/bin/java is Java 24")


@pytest.fixture(autouse=True)
def _enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_choice, "available_memory_bytes", lambda: LEAST_MEMORY_GIB * GIB)
    monkeypatch.setattr(spark_choice, "find_spark_java", lambda: None)


def test_with_enough_memory_and_a_java_spark_takes_part() -> None:
    assert why_without_spark(wanted=True) == ""


def test_no_spark_leaves_it_out() -> None:
    assert why_without_spark(wanted=False) == "--no-spark"


def test_with_too_little_memory_it_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_choice, "available_memory_bytes", lambda: LEAST_MEMORY_GIB * GIB - GIB // 2)
    said = "the demo with Spark needs 4 GiB of free memory, and there are 3.5 GiB"
    assert why_without_spark(wanted=True) == said


def test_without_a_java_for_spark_it_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_choice, "find_spark_java", no_java)
    said = "Spark has no Java here: no Java 17 to 21: /usr/bin/java is Java 24"
    assert why_without_spark(wanted=True) == said
