"""Names of the cases of `bench wan`."""

import pytest

from bench.errors import BenchError
from bench.wan.cases import (
    ANSWER_WINDOW_BYTES,
    CASES,
    CLIENT_ANSWER_WINDOW_BYTES,
    IDLE_WIDE,
    REQUEST_WINDOW_BYTES,
    Case,
    grouped,
)


def test_a_name_says_all_of_a_case() -> None:
    case = Case.parse("source-far-windows-late-rf3-p8")
    assert case.far == "source"
    assert case.is_windowed
    assert case.has_late_chunks
    assert case.replicas == 3
    assert (case.partitions, case.idle_partitions) == (8, IDLE_WIDE)


def test_the_plain_case_is_one_partition_without_limits() -> None:
    case = Case.parse("target-far")
    assert (case.far, case.replicas, case.partitions, case.idle_partitions) == ("target", 1, 1, 0)
    distance = case.distance(50.0, "raymirror")
    assert (distance.rtt_ms, distance.request_window_bytes, distance.answer_window_bytes) == (50.0, 0, 0)
    assert distance.late_share == 0.0


def test_windows_are_those_of_brokers_and_of_the_client_where_that_is_less() -> None:
    case = Case.parse("target-far-windows")
    tuned, default = case.distance(100.0, "mm2-tuned"), case.distance(100.0, "mm2")
    assert (tuned.request_window_bytes, tuned.answer_window_bytes) == (REQUEST_WINDOW_BYTES, ANSWER_WINDOW_BYTES)
    assert default.answer_window_bytes == CLIENT_ANSWER_WINDOW_BYTES["mm2"]


@pytest.mark.parametrize(
    "name", ["", "near", "source-farther", "source-far-", "source-far-rf5", "source-far-late-late"]
)
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(BenchError, match="no case"):
        Case.parse(name)


def test_cases_that_need_the_same_brokers_are_together() -> None:
    groups = grouped([Case.parse(name) for name in CASES])
    assert sorted(case.name for group in groups for case in group) == sorted(CASES)
    for group in groups:
        assert len({(case.replicas, case.is_windowed) for case in group}) == 1
    assert len(groups) == 3
