"""The cases of `priority`, their settings, and the judgement of its goals."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.errors import BenchError
from bench.latency.judge import QUANTILES
from bench.priority.cases import ALONE, BESIDE, CAPPED, CAPPED_CLASSES, CASES, CLASSES, MM2_ALONE, MM2_BESIDE
from bench.priority.command import require_space
from bench.priority.figures import goals, hot, rows, summary


def figures(p99_ms: float) -> dict[str, Any]:
    return {**dict.fromkeys(QUANTILES, 1.0), "p99_ms": p99_ms, "bulk_mib_per_s": 7.0}


def test_a_case_sets_what_its_name_says() -> None:
    names = ("A->B", "hot", "bulk", 2.0)
    assert CASES[BESIDE].settings(*names) == CASES[MM2_BESIDE].settings(*names) == {}
    assert CASES[CLASSES].settings(*names) == {"A->B.raymirror.priority": "hot@high"}
    assert CASES[CAPPED].settings(*names) == {"A->B.raymirror.bandwidth.bytes": "bulk@2097152"}
    assert len(CASES[CAPPED_CLASSES].settings(*names)) == 2
    assert [case.name for case in CASES.values() if not case.has_bulk] == [ALONE, MM2_ALONE]


def test_only_the_records_of_the_window_count() -> None:
    took_ns = np.array([9, 1, 1, 1, 9], dtype=np.int64) * 1_000_000
    found = hot(took_ns, (1, 4))
    assert (found["max_ms"], found["records"]) == (1.0, 3)


def test_goals_compare_within_a_round() -> None:
    rounds = [
        {ALONE: figures(4.0), BESIDE: figures(100.0), CLASSES: figures(20.0), CAPPED: figures(8.0)},
        {ALONE: figures(40.0), BESIDE: figures(90.0), CLASSES: figures(45.0), CAPPED: figures(50.0)},
        {ALONE: figures(5.0), BESIDE: figures(60.0), CLASSES: figures(12.0), CAPPED: figures(9.0)},
    ]
    found = summary(rounds)
    assert found[CAPPED]["above_alone"]["p99_ms"] == 4.0
    assert found[CLASSES]["of_beside"]["p99_ms"] == 0.2
    assert "above_alone" not in found[ALONE]
    judged = goals(found)
    assert [one["is_met"] for one in judged.values()] == [True, True]
    assert rows(found, judged)[-1].endswith("met")


def test_a_goal_that_falls_short_is_told_and_a_case_without_its_base_has_none() -> None:
    found = summary([{ALONE: figures(4.0), CAPPED: figures(10.0)}, {CLASSES: figures(1.0)}])
    judged = goals(found)
    assert judged == {"capped p99 above alone, ms": {"value": 6.0, "most": 5.0, "is_met": False}}
    assert rows(found, judged)[-1].endswith("NOT met")
    assert len(found[CLASSES]["runs"]) == 1


def test_mm2_is_compared_with_itself_alone() -> None:
    found = summary([{ALONE: figures(1.0), MM2_ALONE: figures(30.0), MM2_BESIDE: figures(90.0)}])
    assert found[MM2_BESIDE]["above_alone"]["p99_ms"] == 60.0
    assert "above_alone" not in found[MM2_ALONE]


def test_a_disk_that_is_too_small_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=20 * 2**30))
    require_space(Path("/x"), 9.0)
    with pytest.raises(BenchError, match=r"has 20\.0 GiB free; a backlog of 10 GiB needs 22\.0"):
        require_space(Path("/x"), 10.0)
