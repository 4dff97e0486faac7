"""Judging of translated offsets: by the records between the answer and the right offset."""

import pytest

from bench.translation.command import judged
from bench.translation.groups import Found, random_commits
from bench.translation.truth import Judge, Log

SOURCE = Log([0, 1, 2, 5, 6, 9], [b"a", b"b", b"c", b"d", b"e", b"f"])
TARGET = Log([10, 11, 12, 20, 21, 22], [b"a", b"b", b"c", b"d", b"e", b"f"])


@pytest.mark.parametrize(
    ("source", "target", "repeated"),
    [
        (0, 10, 0),
        (2, 12, 0),
        (3, 20, 0),  # in a hole of the source: the record behind it
        (3, 13, 0),  # a hole of the target leads to the same record
        (5, 12, 1),
        (6, 10, 4),
        (9, 21, 1),
        (10, 23, 0),
        (10, 22, 1),
        (2, 20, -1),
        (0, 23, -6),
    ],
)
def test_what_a_consumer_reads_again_is_counted_in_records(source: int, target: int, repeated: int) -> None:
    assert Judge(SOURCE, TARGET).repeated(source, target) == repeated


def test_a_copy_of_other_records_cannot_be_judged() -> None:
    with pytest.raises(ValueError, match="the copy has 5 records, the source 6"):
        Judge(SOURCE, Log(TARGET.offsets[1:], TARGET.values[1:]))


def test_every_commit_counts_with_a_checkpoint_or_without() -> None:
    commits = {("g", "t", 0): 5, ("h", "t", 0): 6, ("i", "t", 0): 2, ("j", "t", 0): 0}
    told = {("g", "t", 0): Found(5, 20), ("h", "t", 0): Found(6, 12), ("i", "t", 0): Found(2, 22)}
    figures = judged({("t", 0): Judge(SOURCE, TARGET)}, commits, told)
    assert (figures["places"], figures["exact"], figures["none"], figures["skipping"]) == (4, 1, 1, 1)
    assert (figures["max"], figures["mean"]) == (2, -0.3)


def test_commits_are_the_same_in_every_run_and_within_the_log() -> None:
    ends = {("t", 0): 1000, ("t", 1): 50, ("u", 0): 7}
    commits = random_commits(200, ends)
    assert commits == random_commits(200, ends)
    assert len(commits) == 400
    assert all(0 <= offset <= ends[topic, partition] for (_, topic, partition), offset in commits.items())
    assert any(offset == ends[topic, partition] for (_, topic, partition), offset in commits.items())
