"""What is read from the answers of commands."""

from typing import Any

import numpy as np
import pytest

from bench.story.reports import (
    FailbackCounts,
    bytes_of,
    calls_equal,
    failback_counts,
    failover_steps,
    operation_steps,
    projected_s,
)

OPERATION = {
    "began_ms": 1_000,
    "steps": [
        {"name": "check", "began_ms": 1_500, "ended_ms": 2_500, "facts": {}},
        {
            "name": "close",
            "began_ms": 2_500,
            "ended_ms": 2_750,
            "facts": {"bytes_to_source": 7, "bytes_of_full_copy": 9},
        },
    ],
}


def test_steps_have_their_seconds() -> None:
    assert operation_steps(OPERATION) == {"check": 1.0, "close": 0.25, "all": 1.75}
    failover = {"steps": [{"step": "take", "seconds": 3}, {"step": "stop", "seconds": 0.5}]}
    assert failover_steps(failover) == {"take": 3.0, "stop": 0.5, "all": 3.5}


def test_a_failback_counts() -> None:
    answer = {
        "operation": OPERATION,
        "partitions": [{"diverged": 1, "new": 2}, {"diverged": 3, "new": 4}],
        "groups": [{"repeats": 5}, {"repeats": -1}],
    }
    wanted = FailbackCounts(diverged=4, new=6, bytes_to_source=7, bytes_of_full_copy=9, group_repeats=5)
    assert failback_counts(answer) == wanted
    with pytest.raises(KeyError):
        failback_counts({**answer, "operation": {"steps": OPERATION["steps"][:1]}})  # type: ignore[index]


@pytest.mark.parametrize(
    ("stands", "failed", "equal"),
    [
        ([{"group": "g", "why": ""}], {}, True),
        ([{"group": "g", "why": ""}, {"group": "g", "why": "ahead"}], {}, False),
        ([{"group": "other", "why": ""}], {}, False),
        ([{"group": "g", "why": ""}, {"group": "other", "why": "ahead"}], {}, True),
        ([{"group": "g", "why": ""}], {"g": "no answer"}, False),
    ],
)
def test_a_group_is_equal_only_if_every_row_says_so(
    stands: list[dict[str, str]], failed: dict[str, str], equal: bool
) -> None:
    answer: dict[str, Any] = {"standing": {"stands": stands, "failed": failed}}
    assert calls_equal(answer, "g") is equal


def test_a_batch_of_which_only_some_records_count_counts_in_part() -> None:
    batches = [(10, 4, 400), (14, 2, 100), (17, 1, 70)]
    assert bytes_of(np.array([10, 11, 14, 15, 17]), batches) == 200 + 100 + 70
    assert bytes_of(np.array([], dtype=np.int64), batches) == 0
    assert bytes_of(np.array([10]), []) == 0


def test_a_copy_takes_longer_in_proportion() -> None:
    assert projected_s(3.0, 2_000_000, 200_000_000) == 300.0
    assert projected_s(3.0, 0, 200_000_000) == 3.0
