"""Events as records: readable by people, by the next version and by the previous one."""

import json
from typing import Any

import pytest

from engine.base.errors import NewerFormat
from engine.core.events.events import Event, SourceGap, TopicWarning
from engine.state.event_records import EventCodec, EventRecord, EventsDropped
from policies.model import FlowName, TopicPartition

FLOW = FlowName("A", "B")
TOPIC = "raymirror-events.A.internal"
CODEC = EventCodec(FLOW, TOPIC)
GAP = SourceGap(flow=FLOW, lane=TopicPartition("t", 3), first=5, last=9, cause="retention")
GAP_TEXT = (
    "t-3: gap: source offsets 5 to 9 are gone (retention); the lane stopped;"
    " to continue after the gap, set raymirror.source.gap = continue"
)
KEY = b'{"kind":"source_gap","flow":"A->B","about":"t-3"}'
VALUE = (
    b'{"at_ms":12,"severity":"error","text":"' + GAP_TEXT.encode() + b'","event":{"event":"source_gap",'
    b'"flow":["A","B"],"lane":["t",3],"first":5,"last":9,"cause":"retention","goes_on_at":-1},"format":1}'
)
OLDER = VALUE.replace(b',"goes_on_at":-1', b"")
"""As it was written before lanes could go on behind gaps."""


class Moved(Event, frozen=True, kw_only=True, tag="moved"):
    """An event of another layer."""

    set_id: str

    @property
    def about(self) -> str:
        return self.set_id

    def text(self) -> str:
        return f"{self.set_id}: moved"


def record(kind: str, event: Any, **changes: Any) -> tuple[bytes, bytes]:
    value = {"format": 1, "at_ms": 7, "severity": "warning", "text": "something", "event": event, **changes}
    return json.dumps({"kind": kind, "flow": "A->B", "about": "x"}).encode(), json.dumps(value).encode()


def test_an_event_is_golden() -> None:
    assert CODEC.encode(GAP, 12) == (KEY, VALUE)
    assert CODEC.decode([(KEY, OLDER)]) == CODEC.decode([(KEY, VALUE)]) == [
        EventRecord(
            at_ms=12, severity="error", kind="source_gap", flow=FLOW, about="t-3", text=GAP_TEXT, event=GAP
        )
    ]  # fmt: skip


def test_events_come_by_age_each_once_since_an_instant() -> None:
    warning = TopicWarning(flow=FLOW, topic="t", what="smaller")
    records = [CODEC.encode(GAP, 30), CODEC.encode(warning, 20), CODEC.encode(GAP, 30), CODEC.encode(warning, 10)]
    assert [one.at_ms for one in CODEC.decode(records)] == [10, 20, 30]
    assert [one.event for one in CODEC.decode(records, since_ms=20)] == [warning, GAP]


def test_events_of_another_layer_are_typed_where_they_are_known() -> None:
    moved = Moved(flow=FLOW, set_id="A->B/017")
    stored = CODEC.encode(moved, 5)
    assert stored[0] == b'{"kind":"moved","flow":"A->B","about":"A->B/017"}'
    assert EventCodec(FLOW, TOPIC, [Moved]).decode([stored])[0].event == moved
    (unknown,) = CODEC.decode([stored])
    assert (unknown.event, unknown.kind, unknown.about) == (None, "moved", "A->B/017")
    assert (unknown.text, unknown.severity) == ("A->B/017: moved", "info")


@pytest.mark.parametrize("event", [{"event": "teleported", "to": 3}, {"event": "source_gap"}, 7, None])
@pytest.mark.parametrize("version", [1, 2])
def test_a_kind_or_a_shape_that_is_not_known_still_says_what_happened(event: Any, version: int) -> None:
    (found,) = CODEC.decode([record("teleported", event, format=version, mood="new")])
    assert (found.event, found.text, found.severity, found.at_ms) == (None, "something", "warning", 7)


def test_a_version_further_above_is_refused() -> None:
    with pytest.raises(NewerFormat, match=rf"topic {TOPIC}: event moved: format 3, .* reads up to 2"):
        CODEC.decode([record("moved", {}, format=3)])


@pytest.mark.parametrize(
    "stranger",
    [
        (None, VALUE),
        (KEY, None),
        (b"x", VALUE),
        (KEY, b"x"),
        (KEY, b'{"at_ms":"now"}'),
        (KEY.replace(b"A->B", b"A->C"), VALUE),
    ],
)
def test_what_is_no_event_of_the_flow_is_left_out(stranger: tuple[bytes | None, bytes | None]) -> None:
    assert CODEC.decode([stranger]) == []


def test_dropped_events_are_an_event() -> None:
    dropped = EventsDropped(flow=FLOW, count=3, why="away")
    (found,) = CODEC.decode([CODEC.encode(dropped, 1)])
    assert found.event == dropped
    assert found.text == "the events topic lacks 3 events (away)"
