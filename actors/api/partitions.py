"""Answers lists of topics, partitions and proofs: filtered, ordered and cut on the server, which may have thousands."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from actors.api.entities import PartitionPage, ProofPage, ProvenPartition, TopicPage, TopicSummary
from actors.api.queries import part_of, text
from actors.api.summaries import proof_summary
from actors.api.view import ApiView
from actors.model.status import FlowStatus, MirrorStatus, TopicStatus
from actors.observability.lagging import NO_DISCOVERY, PARTITION_STATES, flow_of, rows_of, state_of, why_of
from actors.rest.exchange import HttpAnswer, HttpCall
from actors.rest.target import ChoiceParameter, QueryParameter
from engine.core.reports.progress import LaneProgress
from engine.jobs.proof.state import LaneProof
from policies.model import TopicPartition

BEHIND: Final = "behind"
"""The word of `state` for partitions that are behind, unknown, or have a reason."""
NAME_PART: Final = QueryParameter(name="q", meaning="a part of the name")
STATE: Final = ChoiceParameter(
    name="state",
    meaning=f"the state of partitions; `{BEHIND}`: behind, unknown, or with a reason",
    values=(*PARTITION_STATES, BEHIND),
)
SORT: Final = ChoiceParameter(
    name="sort",
    meaning="by name, or the furthest behind first",
    values=("name", "records", "bytes", "seconds"),
    usual="name",
)
LIST_QUERY: Final = (NAME_PART, STATE, SORT)


def partitions(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return some partitions of a flow, and why one stands still."""
    status, flow, part = view.present, view.named_flow(call), part_of(call)
    topic, q, state = text(call, "topic"), NAME_PART.given(call), STATE.read(call)
    named = [
        lane
        for lane in _lanes(status, flow)
        if topic in ("", lane.lane.topic) and (not q or q in f"{lane.lane.topic}-{lane.lane.partition}")
    ]
    found = [lane for lane in named if _matches(lane, state)]
    found.sort(key=_lane_key(SORT.read(call), status.at_ms))
    return HttpAnswer(
        body=PartitionPage(
            flow=flow.flow,
            at_ms=status.at_ms,
            total=len(found),
            offset=part.offset,
            limit=part.limit,
            states=dict(Counter(map(state_of, named))),
            partitions=tuple(rows_of(status, part.of(found))),
            not_discovered=_not_discovered(flow),
        )
    )


def topics(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return some topics of a flow."""
    status, flow, part = view.present, view.named_flow(call), part_of(call)
    q, state, sort = NAME_PART.given(call), STATE.read(call), SORT.read(call)
    by_topic: defaultdict[str, list[LaneProgress]] = defaultdict(list)
    for lane in _lanes(status, flow):
        if q in lane.lane.topic:
            by_topic[lane.lane.topic].append(lane)
    counts = {one.topic: one for one in status.topics if one.flow == flow.flow}
    found = [
        _topic(name, lanes, counts.get(name), flow, status.at_ms)
        for name, lanes in sorted(by_topic.items())
        if not state or any(_matches(lane, state) for lane in lanes)
    ]
    if sort != SORT.usual:
        found.sort(key=_topic_key(sort))
    return HttpAnswer(
        body=TopicPage(
            flow=flow.flow,
            at_ms=status.at_ms,
            total=len(found),
            offset=part.offset,
            limit=part.limit,
            topics=tuple(part.of(found)),
            not_discovered=_not_discovered(flow),
        )
    )


def proofs(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return what the continuous proof knows about some partitions of a flow: those that differ first."""
    status, flow, part, q = view.present, view.named_flow(call), part_of(call), NAME_PART.given(call)
    proof = status.proofs.get(flow.flow)
    lanes = [one for one in proof.lanes if q in f"{one.topic}-{one.partition}"] if proof is not None else []
    lanes.sort(key=lambda one: (not one.differences, one.topic, one.partition))
    copied = {lane.lane: lane.source_next for lane in _lanes(status, flow)}
    return HttpAnswer(
        body=ProofPage(
            flow=flow.flow,
            at_ms=status.at_ms,
            proof=None if proof is None else proof_summary(proof, status.at_ms),
            total=len(lanes),
            offset=part.offset,
            limit=part.limit,
            partitions=tuple(
                _proven(one, copied.get(TopicPartition(one.topic, one.partition), -1)) for one in part.of(lanes)
            ),
        )
    )


def _lanes(status: MirrorStatus, flow: FlowStatus) -> Iterable[LaneProgress]:
    return (lane for lane in status.lanes if flow_of(lane) == flow.flow)


def _matches(lane: LaneProgress, state: str) -> bool:
    if state == BEHIND:
        return bool(why_of(lane)) or lane.lag_records != 0
    return state in ("", state_of(lane))


def _lane_key(sort: str, at_ms: int) -> Callable[[LaneProgress], Any]:
    """Return the key of an order; equal lags are ordered by name."""
    match sort:
        case "records":
            return lambda lane: (-lane.least_lag_records, lane.lane)
        case "bytes":
            return lambda lane: (-lane.lag_bytes, lane.lane)
        case "seconds":
            return lambda lane: (-lane.least_lag_ms(at_ms), lane.lane)
        case _:
            return lambda lane: lane.lane


def _topic_key(sort: str) -> Callable[[TopicSummary], Any]:
    match sort:
        case "records":
            return lambda one: -one.least_records
        case "bytes":
            return lambda one: -(one.lag_bytes or 0)
        case _:
            return lambda one: -one.least_seconds


def _topic(
    name: str, lanes: Sequence[LaneProgress], counted: TopicStatus | None, flow: FlowStatus, at_ms: int
) -> TopicSummary:
    known = all(lane.lag_known for lane in lanes)
    sizes = [lane.lag_bytes for lane in lanes]
    heard = [lane for lane in lanes if lane.lag_heard]
    whys = Counter(why for lane in lanes if (why := why_of(lane)))
    least_seconds = max((lane.least_lag_ms(at_ms) for lane in heard), default=0) / 1000
    return TopicSummary(
        topic=name,
        target_topic=lanes[0].target.topic,
        partitions=len(lanes),
        states=dict(Counter(map(state_of, lanes))),
        paused=name in flow.paused_topics,
        unknown=sum(not lane.lag_known for lane in lanes),
        stalled=sum(bool(lane.reason) and lane.state != "paused" for lane in lanes),
        why=max(whys, key=lambda why: whys[why], default=""),
        lag_records=sum(lane.lag_records for lane in lanes) if known else None,
        lag_bytes=sum(sizes) if known and min(sizes) >= 0 else None,
        lag_seconds=least_seconds if known else None,
        least_records=sum(lane.least_lag_records for lane in heard),
        least_seconds=least_seconds,
        records=counted.records if counted is not None else 0,
        bytes=counted.wire_bytes if counted is not None else 0,
    )


def _not_discovered(flow: FlowStatus) -> str:
    return (flow.waiting_for or NO_DISCOVERY) if flow.is_undiscovered else ""


def _proven(one: LaneProof, source_next: int) -> ProvenPartition:
    is_proven = one.proven_to >= 0
    return ProvenPartition(
        topic=one.topic,
        partition=one.partition,
        proven_from=one.proven_from if is_proven else None,
        proven_to=one.proven_to if is_proven else None,
        unproven=max(0, source_next - one.proven_to) if is_proven and source_next >= 0 else None,
        differences=one.differences,
        first=one.first.text if one.first is not None else "",
        note=one.note,
    )
