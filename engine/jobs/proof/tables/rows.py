"""Rows of the two Parquet tables that proofs store per flow; each run appends to them. Pure.

<proofs>/lanes/run=.../         one row per lane: what was read, what is proven; rows of many runs are joined
<proofs>/differences/run=.../   one row per difference

`store.py` writes and reads them with Spark, `files.py` without it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from engine.jobs.proof.model import LaneReport, ProofReport, Proven, RecordDifference
from engine.jobs.proof.state import Key

Columns = Mapping[str, str]
"""The columns of a table by name, each a `text`, an `int` or a `long`."""


def _columns(text: str) -> Columns:
    return dict(one.split(":") for one in text.split())


LANES = _columns(
    """run:text began_ms:long topic:text partition:int target_topic:text source_id:text target_id:text generation:long
       source_from:long source_to:long target_from:long target_to:long proven_from:long proven_to:long records:long
       payload_bytes:long without_record:long not_comparable:long unmapped:long differences:long verdict:text
       note:text"""
)
DIFFERENCES = _columns(
    """run:text began_ms:long topic:text partition:int source_offset:long target_topic:text target_offset:long kind:text
       what:text"""
)
_SUMMED = ("records", "payload_bytes", "without_record", "not_comparable")


def _rows(
    columns: Columns, report: ProofReport, found: Sequence[LaneReport | RecordDifference]
) -> list[tuple[Any, ...]]:
    names = list(columns)[2:]
    return [(report.run, report.began_ms, *(msgspec.to_builtins(one)[name] for name in names)) for one in found]


def tables_of(report: ProofReport) -> Iterator[tuple[str, Columns, list[tuple[Any, ...]]]]:
    """Yield the tables of one proof that have rows: the folder of its run, the columns, the rows."""
    yield f"lanes/run={report.run}", LANES, _rows(LANES, report, report.lanes)
    if report.differences:
        yield f"differences/run={report.run}", DIFFERENCES, _rows(DIFFERENCES, report, report.differences)


def joined(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join rows of a lane whose stretches were read one right after the other and found whole, oldest first."""
    found: list[dict[str, Any]] = []
    last: dict[Key, dict[str, Any]] = {}
    for row in rows:
        key = _key(row)
        before = last.get(key)
        if before is not None and _meet(before, row):
            before |= {**row, "source_from": before["source_from"], "target_from": before["target_from"]} | {
                name: before[name] + row[name] for name in _SUMMED
            }
        else:
            last[key] = dict(row)
            found.append(last[key])
    return found


def _meet(before: dict[str, Any], row: dict[str, Any]) -> bool:
    whole = all(one["verdict"] == "whole" and not one["differences"] and not one["note"] for one in (before, row))
    return whole and (before["source_to"], before["proven_from"]) == (row["source_from"], row["proven_from"])


def _key(row: dict[str, Any]) -> Key:
    return row["topic"], row["partition"], row["source_id"], row["target_id"], row["generation"]


def fold(rows: Any) -> dict[Key, Proven]:
    """Combine the rows of all runs, the oldest first: stretches that meet are joined; a difference starts a new one."""
    found: dict[Key, Proven] = {}
    for row in rows:
        key = _key(row)
        now = Proven(row["proven_from"], row["proven_to"])
        before = found.get(key)
        if row["verdict"] == "unproven":
            continue
        if before is None or row["differences"]:
            found[key] = now
        elif now.source_from <= before.source_to and before.source_from <= now.source_to:
            found[key] = Proven(min(now.source_from, before.source_from), max(now.source_to, before.source_to))
        elif now.source_to - now.source_from > before.source_to - before.source_from:
            found[key] = now
    return {key: one for key, one in found.items() if one.source_from < one.source_to}
