"""Builds rows from a status: how far behind each partition is, which copier has it, and why it does not move."""

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from actors.model.status import MirrorStatus
from engine.core.lane.states import State as LaneState
from engine.core.reports.progress import PAUSED, UNOWNED, LaneProgress

UNKNOWN = "unknown"
"""The word for an unknown lag."""
SILENT = "silent"
"""State of a partition that would be copied if a broker of its source answered for it."""
PARTITION_STATES: Final = (*(one.value for one in LaneState if one is not LaneState.WATCHING), PAUSED, UNOWNED, SILENT)
"""All states of partitions in tables; one that watches the end of its source is shown as copying."""
NO_ANSWER = "no broker of the source answers for it"
"""Why a partition is silent."""
NO_DISCOVERY = "a discovery of topics"
"""What a flow without known partitions waits for, if it names nothing else."""


class LagRow(msgspec.Struct, frozen=True, kw_only=True):
    """One partition. A value that is not known is None, or -1 for the offsets and times without a default. Bytes are an
    estimate, as on the wire; times are Unix ms.

    The lag is unknown if no copier has the partition, or if the source has not reported its end for a while.
    Then `heard_lag_records` and `heard_lag_seconds` are the lag when the end was last reported, `heard_seconds_ago`.
    """

    flow: str
    topic: str
    partition: int
    target_topic: str
    lag_records: int | None
    lag_bytes: int | None
    lag_seconds: float | None
    state: str
    why: str
    owner: str
    set_id: str
    epoch: int
    """Assignment epoch of the set's present owner; -1 if no copier holds the lane."""
    source_next: int
    source_end: int
    target_next: int
    newest_ms: int
    appended_at_ms: int
    heard_lag_records: int | None = None
    heard_lag_seconds: float | None = None
    heard_seconds_ago: float | None = None
    proven_to: int | None = None
    """Source offset up to which the copy is proven, with continuous proof."""


def lag_rows(status: MirrorStatus, flow: str | None = None, topics: Collection[str] = ()) -> list[LagRow]:
    """Return the partitions of all flows or of one, of all topics or of some, in order."""
    wanted = [
        lane for lane in status.lanes if flow in (None, flow_of(lane)) and (not topics or lane.lane.topic in topics)
    ]
    return rows_of(status, sorted(wanted, key=lambda lane: (flow_of(lane), *lane.lane)))


def rows_of(status: MirrorStatus, lanes: Iterable[LaneProgress]) -> list[LagRow]:
    """Return the rows of some partitions of a status, in the given order."""
    owners = {set_id: copier.copier_id for copier in status.copiers for set_id in copier.set_ids}
    proven = {
        (flow, one.topic, one.partition): one.proven_to
        for flow, proof in status.proofs.items()
        for one in proof.lanes
        if one.proven_to >= 0
    }
    return [
        _row(lane, status.at_ms, owners.get(lane.set_id, ""), proven.get((flow_of(lane), *lane.lane))) for lane in lanes
    ]


def flow_of(lane: LaneProgress) -> str:
    """Return the flow of a partition, from its set id, such as `A->B/017`."""
    return lane.set_id.rpartition("/")[0]


def state_of(lane: LaneProgress) -> str:
    """Return the state of a partition as tables show it."""
    return SILENT if _is_silent(lane) else lane.state


def why_of(lane: LaneProgress) -> str:
    """Return why a partition does not move, or is slow; empty if neither."""
    return lane.reason or (NO_ANSWER if _is_silent(lane) else lane.held or lane.bound)


def _is_silent(lane: LaneProgress) -> bool:
    return lane.state in ("copying", "watching") and lane.lag_heard and not lane.lag_known


def flows_unknown(status: MirrorStatus, flow: str | None = None) -> dict[str, str]:
    """Return the flows, all or one, whose partitions are not known yet, with what each waits for.

    These flows have no rows, and a list without rows must not read as "nothing is behind".
    """
    flows = (one for one in status.flows if one.is_undiscovered and flow in (None, one.flow))
    return {one.flow: one.waiting_for or NO_DISCOVERY for one in flows}


def _row(lane: LaneProgress, at_ms: int, owner: str, proven_to: int | None) -> LagRow:
    heard = lane.lag_heard
    return LagRow(
        flow=flow_of(lane),
        topic=lane.lane.topic,
        partition=lane.lane.partition,
        target_topic=lane.target.topic,
        lag_records=lane.lag_records if lane.lag_known else None,
        lag_bytes=lane.lag_bytes if lane.lag_known and lane.lag_bytes >= 0 else None,
        lag_seconds=lane.lag_ms(at_ms) / 1000 if lane.lag_known else None,
        state=state_of(lane),
        why=why_of(lane),
        owner=owner,
        set_id=lane.set_id,
        epoch=lane.epoch,
        source_next=lane.source_next,
        source_end=lane.source_end,
        target_next=lane.target_next,
        newest_ms=lane.newest_ms,
        appended_at_ms=lane.appended_at_ms,
        heard_lag_records=lane.least_lag_records if heard else None,
        heard_lag_seconds=lane.heard_lag_ms(at_ms) / 1000 if heard else None,
        heard_seconds_ago=lane.source_end_age_ms / 1000 if heard else None,
        proven_to=proven_to,
    )


def records_text(row: LagRow) -> str:
    """Return the lag of a partition in records; if it is unknown, the last known lag and its age."""
    if row.lag_records is not None:
        return f"{row.lag_records:,}"
    if row.heard_lag_records is None:
        return UNKNOWN
    return f"{UNKNOWN} (was {row.heard_lag_records:,} {seconds_text(row.heard_seconds_ago)} ago)"


def bytes_text(size: int | None) -> str:
    """Return a size with about three digits, `-` if it is not known."""
    if size is None:
        return "-"
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def seconds_text(seconds: float | None) -> str:
    """Return a duration in its two largest units, `-` if it is not known."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"
