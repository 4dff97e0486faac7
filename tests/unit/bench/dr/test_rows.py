"""A row is clean only if nothing at all is wrong; rows are kept, and sums add up."""

import itertools
from pathlib import Path

import msgspec
import pytest

from bench.dr.clients import read_noted, read_sent
from bench.dr.command import RowBook, sharing, summary
from bench.dr.judge import GroupFault, Sent, SideFault
from bench.dr.operations import cells
from bench.dr.records import RecordId
from bench.dr.rounds import Row

CLEAN = Row(
    cell="drill-default-idle",
    seed=3,
    moment="drain",
    victim="driver",
    delay_s=0.1,
    killed="",
    took_s=1.0,
    operation_s=0.5,
    attempts=["dr drill ended with 0"],
    records=10,
    excused=0,
    here=SideFault(),
    there=SideFault(),
    groups={"java": GroupFault(repeated=2), "librdkafka": GroupFault()},
    may_repeat={"java": True, "librdkafka": False},
    notes=["a note is no fault"],
    failures=[],
)


@pytest.mark.parametrize(
    "wrong",
    [
        {"here": SideFault(lost=1)},
        {"there": SideFault(doubled=1)},
        {"there": SideFault(misplaced=1)},
        {"groups": {**CLEAN.groups, "librdkafka": GroupFault(repeated=1)}},
        {"groups": {**CLEAN.groups, "java": GroupFault(skipped=1)}},
        {"failures": ["the drill has left something"]},
    ],
)
def test_one_fault_is_enough(wrong: dict[str, object]) -> None:
    assert CLEAN.is_clean
    row = msgspec.structs.replace(CLEAN, **wrong)
    assert not row.is_clean
    (found,) = summary([CLEAN, row]).values()
    assert (found["seeds"], found["kills"], found["clean"], found["records"]) == (2, 2, 1, 20)


def test_a_seed_that_was_played_is_found_again(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    RowBook(file).add(CLEAN)
    book = RowBook(file)
    assert book.rows == [CLEAN]
    assert (book.has(CLEAN.cell, 3), book.has(CLEAN.cell, 4), book.has("other", 3)) == (True, False, False)


def test_notes_of_clients_are_read_by_the_writers_names(tmp_path: Path) -> None:
    file = tmp_path / "notes"
    file.write_text("+ t 0 0\n? t 0 1\n- t 1 0\n")
    assert read_sent(file, "w") == Sent(frozenset({RecordId("w", "t", 0, 0)}), frozenset({RecordId("w", "t", 0, 1)}))
    file.write_text("a.t 0 17 w:0:5\n")
    assert read_noted(file, {"a.t": "t"}) == {("a.t", 0): [RecordId("w", "t", 0, 5)]}


def test_cells_that_can_share_a_world_are_played_one_after_the_other() -> None:
    every = cells()
    order = [sharing(every[name]) for name in sorted(every, key=lambda name: sharing(every[name]))]
    assert len(dict.fromkeys(order)) == sum(a != b for a, b in itertools.pairwise(order)) + 1
