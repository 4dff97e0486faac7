"""Rows of the tables `proof_lanes` and `proof_differences`, to which each proof adds some. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from engine.jobs.proof.model import LaneReport, ProofReport, Proven, RecordDifference
from engine.jobs.proof.state import Key
from engine.jobs.tables.catalog import PROOF_DIFFERENCES, PROOF_LANES
from engine.jobs.tables.columns import TableSpec

Row = dict[str, Any]
_SUMMED = ("records", "payload_bytes", "without_record", "not_comparable", "left_out", "replayed")


def lane_rows(report: ProofReport) -> list[Row]:
    """Return the rows of `proof_lanes`: one per lane."""
    return _rows(PROOF_LANES, report, report.lanes)


def difference_rows(report: ProofReport) -> list[Row]:
    """Return the rows of `proof_differences`: one per difference."""
    return _rows(PROOF_DIFFERENCES, report, report.differences)


def _rows(spec: TableSpec, report: ProofReport, found: Sequence[LaneReport | RecordDifference]) -> list[Row]:
    same = {"run": report.run, "began_ms": report.began_ms, "flow": str(report.flow)}
    same[spec.partition] = spec.partition_of(report.began_ms)
    own = [one.name for one in spec.columns if one.name not in same]
    rows = []
    for one in found:
        values = msgspec.to_builtins(one)
        rows.append(same | {name: values[name] for name in own})
    return rows


def joined(rows: Iterable[Row]) -> list[Row]:
    """Join rows of a lane whose stretches were read one right after the other and found whole, oldest first."""
    found: list[Row] = []
    last: dict[tuple[str, Key], Row] = {}
    for row in rows:
        key = row["flow"], _key(row)
        before = last.get(key)
        if before is not None and _meet(before, row):
            before |= {**row, "source_from": before["source_from"], "target_from": before["target_from"]} | {
                name: _sum(before[name], row[name]) for name in _SUMMED if name in row
            }
        else:
            last[key] = dict(row)
            found.append(last[key])
    return found


def _sum(one: int | None, other: int | None) -> int | None:
    """Add two counts; rows of earlier versions do not have every one."""
    return one if other is None else other if one is None else one + other


def _meet(before: Row, row: Row) -> bool:
    whole = all(one["verdict"] == "whole" and not one["differences"] and not one["note"] for one in (before, row))
    return whole and (before["source_to"], before["proven_from"]) == (row["source_from"], row["proven_from"])


def _key(row: Mapping[str, Any]) -> Key:
    return row["topic"], row["partition"], row["source_id"], row["target_id"], row["generation"]


def fold(rows: Iterable[Mapping[str, Any]]) -> dict[Key, Proven]:
    """Combine a flow's rows, the oldest first: stretches that meet are joined; a difference starts a new one."""
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
