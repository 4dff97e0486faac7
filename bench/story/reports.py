"""Reads what commands answer: seconds of steps, what a failback counted, whether a group was called equal. Pure.

An answer is the JSON object of a command, as it prints it with `--json`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from bench.story.judging import Numbers

Answer = Mapping[str, Any]


class FailbackCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What the report of a failback says, in records and bytes."""

    diverged: int
    new: int
    bytes_to_source: int
    bytes_of_full_copy: int
    group_repeats: int
    """Records that its groups read again, at most."""


def operation_steps(operation: Answer) -> dict[str, float]:
    """Return the seconds of each step of a switchover or a failback; `all` is from the first begin to the last end."""
    steps = operation["steps"]
    found = {one["name"]: max(0, one["ended_ms"] - one["began_ms"]) / 1000 for one in steps}
    return {**found, "all": max(0, steps[-1]["ended_ms"] - operation["began_ms"]) / 1000}


def failover_steps(answer: Answer) -> dict[str, float]:
    """Return the seconds of each step of a failover."""
    found = {one["step"]: float(one["seconds"]) for one in answer["steps"]}
    return {**found, "all": sum(found.values())}


def failback_counts(answer: Answer) -> FailbackCounts:
    """Return what a failback counted. Raises KeyError if it has not come to its end."""
    close = {one["name"]: one["facts"] for one in answer["operation"]["steps"]}["close"]
    return FailbackCounts(
        diverged=sum(one["diverged"] for one in answer["partitions"]),
        new=sum(one["new"] for one in answer["partitions"]),
        bytes_to_source=int(close["bytes_to_source"]),
        bytes_of_full_copy=int(close["bytes_of_full_copy"]),
        group_repeats=sum(max(0, one["repeats"]) for one in answer["groups"]),
    )


def calls_equal(failover: Answer, group: str) -> bool:
    """Whether a failover said that a group reads on exactly where it was."""
    standing = failover["standing"]
    rows = [one for one in standing["stands"] if one["group"] == group]
    return bool(rows) and group not in standing["failed"] and not any(one["why"] for one in rows)


def bytes_of(offsets: Numbers, batches: Sequence[tuple[int, int, int]]) -> float:
    """Return the bytes that records have in a log, by its batches (first offset, records, bytes).

    A batch that holds other records too counts in part. The offsets of a batch's records follow one another.
    """
    if not offsets.size or not batches:
        return 0.0
    firsts = np.array([first for first, _, _ in batches], dtype=np.int64)
    counts = np.array([records for _, records, _ in batches], dtype=np.int64)
    sizes = np.array([size for _, _, size in batches], dtype=np.float64)
    places = np.searchsorted(firsts, offsets, side="right") - 1
    held = np.bincount(places, minlength=len(batches))
    return float(np.sum(sizes * held / counts))


def projected_s(seconds: float, records: int, wanted: int) -> float:
    """Return the seconds of a step that copies `wanted` records, by what it took for some: in proportion."""
    return seconds * wanted / records if records else seconds
