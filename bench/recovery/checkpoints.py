"""Judges translated offsets of groups by the records at both offsets. Pure.

An offset means the first record at or behind it, on the source and on the target. Two offsets mean the same place if
that is the same record, or if no record is behind either.
"""

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from bench.recovery.compare import Numbers

Spot = tuple[str, int]
"""A group and a partition."""
END = -1
"""The number that means the end of the log."""


class Pair(msgspec.Struct, frozen=True, gc=False):
    """One answer: a group's offset on the source, and its translated offset on the target."""

    group: str
    partition: int
    source: int
    target: int

    @property
    def spot(self) -> Spot:
        """The group and partition of the answer."""
        return self.group, self.partition


class Truth:
    """Both logs of one partition: record numbers and their offsets, in the order of the logs."""

    def __init__(self, source: Numbers, source_offsets: Numbers, target: Numbers, target_offsets: Numbers) -> None:
        kept = np.isin(target, source)  # skip records that the source has lost again
        self._source, self._source_offsets = source, source_offsets
        self._target, self._target_offsets = target[kept], target_offsets[kept]

    def is_right(self, source_offset: int, target_offset: int) -> bool:
        """Whether both offsets mean the same record, or the end on both sides."""
        return _at(self._source, self._source_offsets, source_offset) == _at(
            self._target, self._target_offsets, target_offset
        )


def _at(numbers: Numbers, offsets: Numbers, offset: int) -> int:
    place = int(np.searchsorted(offsets, offset))
    return int(numbers[place]) if place < numbers.size else END


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """The result of judging all answers.

    `wrong`: answers that mean another record. `withdrawn`: on a target that lost records, wrong answers that a later
    answer replaced. `missing`: spots whose last answer does not mean the offset of their group. `examples` of wrong and
    missing answers, in words.
    """

    count: int = 0
    wrong: int = 0
    withdrawn: int = 0
    missing: int = 0
    examples: tuple[str, ...] = ()


def judge_told(
    told: Iterable[Pair], last: Mapping[Spot, int], truths: Mapping[int, Truth], *, target_lost: bool
) -> Told:
    """Judge all answers, in the order in which they were given; `last` is the offset of each group on the source.

    If the target lost records, an answer may have been right when it was given and mean another record now; then only
    the last answer of each spot must be right.
    """
    answers = list(told)
    newest = {pair.spot: at for at, pair in enumerate(answers)}
    wrong: list[Pair] = []
    withdrawn = 0
    for at, pair in enumerate(answers):
        if truths[pair.partition].is_right(pair.source, pair.target):
            continue
        if target_lost and newest[pair.spot] != at:
            withdrawn += 1
        else:
            wrong.append(pair)
    missing = [spot for spot, offset in last.items() if not _is_told(spot, offset, newest, answers, truths)]
    return Told(
        count=len(answers),
        wrong=len(wrong),
        withdrawn=withdrawn,
        missing=len(missing),
        examples=(*map(str, wrong[:3]), *(f"nothing right of {spot} at {last[spot]}" for spot in missing[:3])),
    )


def _is_told(
    spot: Spot, offset: int, newest: Mapping[Spot, int], answers: list[Pair], truths: Mapping[int, Truth]
) -> bool:
    at = newest.get(spot)
    return at is not None and truths[spot[1]].is_right(offset, answers[at].target)
