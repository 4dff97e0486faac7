"""What of a mirror has changed between two looks, as messages."""

from typing import Any

import msgspec

from actors.api.deltas import EVENTS_AT_FIRST, DeltaMaker, MessageKind, snapshot
from actors.api.entities import MirrorPage
from actors.api.series import SeriesRing
from actors.api.summaries import page_of
from actors.model.status import EventLine
from tests.unit.actors.rest.rest_views import view_of
from tests.unit.actors.telemetry.statuses import NOW_MS, flow_proof, flow_status, mirror_status

EVENT = EventLine(at_ms=NOW_MS, severity="info", flow="A->B", text="x")


def page(after_ms: int = 0, **flow: Any) -> MirrorPage:
    status = msgspec.structs.replace(
        mirror_status(flows=[flow_status(**flow), flow_status("B->A")]),
        at_ms=NOW_MS + after_ms,
        up_s=after_ms / 1000,
        proofs={"A->B": flow_proof()},
    )
    return page_of(view_of(status))


def kinds(maker: DeltaMaker, now: MirrorPage, *events: EventLine, ring: SeriesRing | None = None) -> list[MessageKind]:
    return [one.kind for one in maker.changes(now, events, ring or SeriesRing())]


def test_time_alone_changes_nothing() -> None:
    maker = DeltaMaker()
    assert kinds(maker, page()) == []
    assert kinds(maker, page(after_ms=60_000)) == []


def test_a_flow_that_has_changed_is_sent_whole_and_alone() -> None:
    maker = DeltaMaker()
    kinds(maker, page())
    (sent,) = maker.changes(page(records=101), (), SeriesRing())
    assert sent.kind is MessageKind.FLOW
    assert msgspec.json.decode(sent.data)["records"] == 101
    assert kinds(maker, page(records=101)) == []


def test_new_events_are_sent_once() -> None:
    maker = DeltaMaker()
    assert kinds(maker, page(), EVENT) == [], "a snapshot has the first ones"
    second = msgspec.structs.replace(EVENT, text="y")
    assert kinds(maker, page(), EVENT, second) == [MessageKind.EVENT]
    assert kinds(maker, page(), EVENT, second) == []


def test_points_since_the_last_look_are_sent() -> None:
    maker, ring = DeltaMaker(), SeriesRing()
    status = mirror_status(flows=[flow_status(), flow_status("B->A")])
    ring.note(status)
    assert kinds(maker, page(), ring=ring) == [MessageKind.POINT] * 2, "of each flow the newest"
    for number in (1, 2):
        ring.note(msgspec.structs.replace(status, at_ms=NOW_MS + 5000 * number))
    assert kinds(maker, page(), ring=ring) == [MessageKind.POINT] * 4
    assert kinds(maker, page(), ring=ring) == []


def test_a_snapshot_has_the_last_events() -> None:
    events = tuple(msgspec.structs.replace(EVENT, text=str(number)) for number in range(EVENTS_AT_FIRST + 50))
    first, *rest = snapshot(page(), events)
    assert first.kind is MessageKind.SNAPSHOT
    assert [msgspec.json.decode(one.data)["text"] for one in rest] == [str(number) for number in range(50, 150)]
