"""What makes a long copy at full speed fail: memory that grew or is too much, gaps, a copy that is not whole."""

from typing import Any

import pytest

from bench.recovery.flat import ABOVE_MIB, BUDGET_MIB, figures, is_within
from bench.recovery.memory import Memory, MemoryWatch

MOST_MIB = float(BUDGET_MIB + ABOVE_MIB)


def memory(peak_mib: float, *, is_flat: bool = True) -> Memory:
    return Memory(middle_mib=100.0, last_mib=100.0, peak_mib=peak_mib, is_flat=is_flat)


def test_a_copier_has_a_bound_and_every_role_must_be_flat() -> None:
    assert is_within({"copier": memory(MOST_MIB), "supervisor": memory(900.0)})
    assert not is_within({"copier": memory(MOST_MIB + 0.1)})
    assert not is_within({"copier": memory(150.0), "supervisor": memory(90.0, is_flat=False)})
    assert not is_within({"supervisor": memory(90.0)}), "without a copier nothing was measured"


@pytest.mark.parametrize(
    ("proof", "gaps", "failed"), [({}, [], False), ({"whole": False}, [], True), ({}, ["a gap"], True)]
)
def test_a_gap_or_a_proof_that_does_not_agree_fails_the_run(
    proof: dict[str, Any], gaps: list[str], failed: bool
) -> None:
    watch = MemoryWatch(dict)
    watch.readings = {"copier": [100.0] * 9}
    found = figures(watch, 1000, 10.0, {"whole": True, "lanes": [{"records": 5}, {"records": 7}], **proof}, gaps)
    assert (found["failed"], found["proof_records"], found["records"]) == (failed, 12, 1000)
