"""The figures of the story, and what is read from Kafka's own commands."""

from pathlib import Path

import numpy as np
import pytest

from bench.story.desk import Typed
from bench.story.group import read_numbers
from bench.story.judging import LogFault, ReadFault
from bench.story.scripts import ends_of, offsets_of
from bench.story.story import rows
from bench.story.told import Chapter, Told, moved_since, totals

DONE = (Typed(line="stop", seconds=1.0), Typed(line="look", seconds=2.0, times=7))
OVER = Chapter(name="over", minutes=1.5, still_s=3.0, copied_bytes=1, again=2, done=DONE)
BACK = Chapter(name="back", minutes=0.25, still_s=4.0, copied_bytes=3 * 2**20, again=0, done=DONE[:1])
TOLD = Told(chapters=(OVER, BACK), reading=ReadFault(records=9, again=2), log=LogFault(records=9))


def test_figures_are_of_the_whole_story() -> None:
    assert totals(TOLD) == {
        "minutes": 1.75,
        "still_s": 7.0,
        "steps": 3,
        "again": 2,
        "copied_back_mib": 3.0,
        "lost": 0,
        "missed": 0,
    }


@pytest.mark.parametrize(
    ("reading", "log", "whole"),
    [
        (ReadFault(again=5), LogFault(doubled=3, late=2), True),
        (ReadFault(missed=1), LogFault(), False),
        (ReadFault(reordered=1), LogFault(), False),
        (ReadFault(), LogFault(lost=1), False),
    ],
)
def test_a_story_that_loses_something_has_no_figures(reading: ReadFault, log: LogFault, whole: bool) -> None:
    assert Told(chapters=(OVER,), reading=reading, log=log).is_whole is whole


def test_the_table_has_a_column_for_each_system() -> None:
    table = {row[0]: row[1:] for row in rows({"one": TOLD, "other": TOLD})}
    assert table["things done"] == ("3", "3")
    assert table["MiB copied to A"] == ("3", "3")
    assert all(len(values) == 2 for values in table.values())


def test_what_was_done_since() -> None:
    assert moved_since([*DONE, *DONE[:1]], 1) == (DONE[1], DONE[0])


def test_end_offsets_are_read() -> None:
    assert ends_of("t:0:12\nt:1:0\nWARN: something else\nt:2:\n") == {0: 12, 1: 0}


def test_offsets_of_a_group_are_read() -> None:
    said = (
        "\nConsumer group 'g' has no active members.\n\n"
        "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID\n"
        "g     t     1         7              9              2   -           -    -\n"
        "g     other 1         8              9              1   -           -    -\n"
        "g     t     0         -              9              -   -           -    -\n"
    )
    assert offsets_of(said, "t") == {1: 7}


def test_numbers_of_a_group_are_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "read.npz"
    np.savez(file, numbers_0=np.array([1, 2]), numbers_11=np.array([], dtype=np.int64))
    found = read_numbers(file)
    assert {at: list(numbers) for at, numbers in found.items()} == {0: [1, 2], 11: []}
