"""Entries of a flow's state: round trips through records."""

import json
from typing import Any

import pytest

from engine.base.errors import NewerFormat, StateUnreadable
from engine.state.state import (
    DEPLOYMENT,
    DESIRED,
    Deployment,
    DesiredState,
    Key,
    Quarantine,
    SetState,
    StateCodec,
    Value,
    owner_of,
    quarantine_key,
    set_key,
    state_topic,
)
from policies.model import FlowName, LaneName, TopicPartition

FLOW = FlowName("A", "B")
CODEC = StateCodec(FLOW, state_topic("A"))
ONE = Deployment(
    deployment_id="d", instance_id="i", mirror="m", version="0.1", where="host:1", term=3, since_ms=1_700_000_000_000
)
ENTRIES: dict[Key, Value] = {
    DESIRED: DesiredState(state="paused", paused_topics=("t",), who="ann", at_ms=7),
    DEPLOYMENT: ONE,
    set_key("A->B/017"): SetState(lanes=(LaneName(TopicPartition("t", 1), TopicPartition("A.t", 1)),), epoch=42),
    quarantine_key("A->B/018"): Quarantine(reason="it dies", since_ms=9, failures=3),
}
GOLDEN = {
    b'{"kind":"desired","flow":"A->B"}': (
        b'{"format":1,"state":"paused","paused_topics":["t"],"who":"ann","at_ms":7,"moved_topics":[]}'
    ),
    b'{"kind":"deployment","flow":"A->B"}': (
        b'{"format":1,"deployment_id":"d","instance_id":"i","mirror":"m","version":"0.1","where":"host:1","term":3,'
        b'"since_ms":1700000000000,"renewals":0,"at_ms":0,"until_ms":0,"released":false}'
    ),
    b'{"kind":"set","flow":"A->B","subject":"A->B/017"}': (
        b'{"format":1,"lanes":[[["t",1],["A.t",1]]],"epoch":42}'
    ),
    b'{"kind":"quarantine","flow":"A->B","subject":"A->B/018"}': (
        b'{"format":1,"reason":"it dies","since_ms":9,"failures":3}'
    ),
}  # fmt: skip


def record(kind: str, value: Any, subject: str = "", flow: str = "A->B") -> tuple[bytes, bytes]:
    key = {"kind": kind, "flow": flow} | ({"subject": subject} if subject else {})
    return json.dumps(key, separators=(",", ":")).encode(), json.dumps(value).encode()


def test_entries_are_golden() -> None:
    assert CODEC.encode(ENTRIES) == GOLDEN
    assert CODEC.decode(GOLDEN.items()) == ENTRIES


def test_the_last_value_counts_and_a_tombstone_removes() -> None:
    paused, stopped = record("desired", {"format": 1, "state": "paused"}), record("desired", {"state": "stopped"})
    assert CODEC.decode([paused, stopped]) == {DESIRED: DesiredState(state="stopped")}
    assert CODEC.decode([paused, (paused[0], None)]) == {}
    assert CODEC.decode([(paused[0], None), paused]) == {DESIRED: DesiredState(state="paused")}
    assert CODEC.encode({DESIRED: None}) == {paused[0]: None}


@pytest.mark.parametrize(
    "stranger",
    [
        (None, b"{}"),
        (b"\xff", b"x"),
        (b'["MirrorSourceConnector",{}]', b"x"),
        (b'{"kind":"desired"}', b"x"),
        record("desired", {"format": 9}, flow="A->C"),
        record("forecast", {"format": 2, "slope": 1}),
        record("forecast", [1, 2]),
    ],
)
def test_what_is_not_ours_or_not_known_is_left_alone(stranger: tuple[bytes | None, bytes | None]) -> None:
    assert CODEC.decode([*GOLDEN.items(), stranger]) == ENTRIES


def test_own_entries_include_kinds_of_the_next_version() -> None:
    forecast, other = record("forecast", {"format": 2}), record("desired", {}, flow="A->C")
    assert CODEC.own([forecast, other]) == dict([forecast])


def test_the_next_version_is_read_without_what_it_added() -> None:
    (found,) = CODEC.decode([record("set", {"format": 2, "lanes": [], "epoch": 3, "zone": "x"}, "s")]).items()
    assert found == (set_key("s"), SetState(format=2, lanes=(), epoch=3))
    assert list(CODEC.encode(dict([found])).values()) == [b'{"format":1,"lanes":[],"epoch":3}']


@pytest.mark.parametrize("kind", ["desired", "set", "forecast"])
def test_a_version_further_above_is_refused(kind: str) -> None:
    with pytest.raises(NewerFormat, match=rf"raymirror-state.A.internal: entry {kind} s: format 3, .* format 1 .* 2"):
        CODEC.decode([record(kind, {"format": 3}, "s")])


@pytest.mark.parametrize("value", ["x", {"format": 1}, {"format": 1, "state": "merry"}, {"format": "one"}])
def test_a_damaged_entry_is_named(value: Any) -> None:
    with pytest.raises(StateUnreadable, match=r"raymirror-state.A.internal: entry desired: .*write a tombstone"):
        CODEC.decode([record("desired", value)])


def test_a_value_of_another_kind_than_its_key_is_a_bug() -> None:
    for key, value in ((DESIRED, ONE), (Key("forecast"), ONE), (Key("forecast"), None)):
        with pytest.raises(TypeError, match="under the key of"):
            CODEC.encode({key: value})


@pytest.mark.parametrize(
    ("term", "instance", "replaced"), [(2, "j", False), (3, "i", False), (3, "j", True), (4, "i", True)]
)
def test_an_owner_is_replaced_by_a_later_term_or_another_of_its_own(term: int, instance: str, replaced: bool) -> None:
    other = Deployment(
        deployment_id="d", instance_id=instance, mirror="m", version="0.1", where="host:2", term=term, since_ms=0
    )
    assert other.replaces(ONE) is replaced


def test_the_owner_says_who_it_is() -> None:
    assert owner_of(ENTRIES) is ONE
    assert owner_of({}) is None
    assert str(ONE) == (
        "mirror 'm' on host:1 (version 0.1, deployment d, instance i, since 2023-11-14T22:13:20+00:00, term 3)"
    )
