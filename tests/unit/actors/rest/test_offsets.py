"""Offsets in MM2's shape: read, set, removed; and what is refused."""

from typing import Any

import pytest

from actors.model.messages import AlteredOffset
from actors.model.requests import AlterPositions
from actors.model.states import Desired
from actors.rest.exchange import HttpAnswer
from tests.unit.actors.rest.rest_views import CHECKPOINT, HEARTBEAT, SOURCE, ask, error, shown, status_with, view_of

ONE = f"/connectors/{SOURCE}/offsets"
GROUPS = f"/connectors/{CHECKPOINT}/offsets"
BEATS = f"/connectors/{HEARTBEAT}/offsets"
MUST_STOP = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the specified"
    " connector by issuing a 'PUT' request to the '/connectors/{}/stop' endpoint"
)
LANE = {"cluster": "A", "partition": 0, "topic": "t"}


def entry(offset: Any, **partition: Any) -> dict[str, Any]:
    return {"partition": LANE | partition, "offset": offset}


def sent(method: str, target: str, body: object = None, desired: Desired = Desired.STOPPED) -> HttpAnswer:
    return ask(method, target, body, view=view_of(status_with(desired=desired)))


def test_offsets_are_mm2s_the_last_copied_record() -> None:
    offset = {"partition": LANE, "offset": {"offset": 99}}
    assert shown(ask("GET", ONE)) == {"offsets": [offset]}
    assert shown(ask("GET", GROUPS)) == {"offsets": []}
    beat = {"partition": {"sourceClusterAlias": "A", "targetClusterAlias": "B"}, "offset": {"offset": 0}}
    assert shown(ask("GET", BEATS)) == {"offsets": [beat]}


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
@pytest.mark.parametrize("desired", [Desired.RUNNING, Desired.PAUSED])
@pytest.mark.parametrize("name", [SOURCE, CHECKPOINT])
def test_offsets_are_changed_only_when_stopped(method: str, desired: Desired, name: str) -> None:
    body = {"offsets": [entry({"offset": 1})]} if method == "PATCH" else None
    answer = sent(method, f"/connectors/{name}/offsets", body, desired)
    assert (error(answer), answer.deeds) == ((400, MUST_STOP.format(name)), ())


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
def test_heartbeats_are_never_stopped(method: str) -> None:
    body = {"offsets": [entry({"offset": 0})]} if method == "PATCH" else None
    assert error(sent(method, BEATS, body)) == (400, MUST_STOP.format(HEARTBEAT))


@pytest.mark.parametrize("body", [{}, {"offsets": []}, {"offsets": None}])
def test_a_change_of_offsets_without_offsets_is_refused(body: object) -> None:
    message = "Partitions / offsets need to be provided for an alter offsets request"
    assert error(ask("PATCH", GROUPS, body)) == (400, message)


def test_offsets_are_set() -> None:
    body = {"offsets": [entry({"offset": 7}), entry({"offset": 2**40}, partition=1), entry(None, topic="u")]}
    answer = sent("PATCH", ONE, body)
    assert (answer.status, shown(answer)) == (
        200,
        {"message": "The offsets for this connector have been altered successfully"},
    )
    wanted = (
        AlteredOffset(topic="t", partition=0, offset=7),
        AlteredOffset(topic="t", partition=1, offset=2**40),
        AlteredOffset(topic="u", partition=0, offset=None),
    )
    assert answer.deeds == (AlterPositions("A->B", wanted),)


def test_of_two_offsets_of_a_partition_the_last_one_counts() -> None:
    answer = sent("PATCH", ONE, {"offsets": [entry({"offset": 7}), entry({"offset": 8})]})
    assert answer.deeds == (AlterPositions("A->B", (AlteredOffset(topic="t", partition=0, offset=8),)),)


@pytest.mark.parametrize(
    ("offsets", "says"),
    [
        ({"a": 1}, "offsets is not a list"),
        ([7], "partition None must have the members"),
        ([{"partition": None, "offset": None}], "partition None must have the members"),
        ([{"partition": {"topic": "t"}, "offset": None}], "must have the members cluster, partition and topic"),
        ([{"partition": {**LANE, "group": "g"}, "offset": None}], "and no other"),
        ([entry({"offset": 1}, cluster="B")], "cluster 'B' must be 'A'"),
        ([entry({"offset": 1}, topic=5)], "topic 5 must be a name"),
        ([entry({"offset": 1}, topic="")], "must be a name"),
        ([entry({"offset": 1}, partition="0")], "partition '0' of topic t must be a number"),
        ([entry({"offset": 1}, partition=-1)], "must be a number from 0 on"),
        ([entry({"offset": 1}, partition=2**31)], "must be a number from 0 on"),
        ([entry({"offset": 1}, partition=True)], "must be a number from 0 on"),
        ([entry({"offset": -1})], "of t-0 must be an object with the member offset"),
        ([entry({"offset": "1"})], "must be an object with the member offset"),
        ([entry({"offset": None})], "must be an object with the member offset"),
        ([entry({"offset": 1.5})], "must be an object with the member offset"),
        ([entry({"offset": 2**63})], "must be an object with the member offset"),
        ([entry(5)], "must be an object with the member offset"),
    ],
)
def test_anything_else_is_refused_and_nothing_is_changed(offsets: object, says: str) -> None:
    good = [entry({"offset": 1})] if isinstance(offsets, list) else []
    answer = sent("PATCH", ONE, {"offsets": [*good, *offsets] if isinstance(offsets, list) else offsets})
    status, message = error(answer)
    assert (status, answer.deeds) == (400, ())
    assert says in message


def test_all_offsets_are_removed() -> None:
    answer = sent("DELETE", ONE)
    assert (answer.status, shown(answer)) == (
        200,
        {"message": "The offsets for this connector have been reset successfully"},
    )
    assert answer.deeds == (AlterPositions("A->B", None),)


def test_groups_have_no_offsets_to_remove_or_to_set() -> None:
    answer = sent("DELETE", GROUPS)
    assert (answer.status, answer.deeds) == (200, ())
    status, message = error(sent("PATCH", GROUPS, {"offsets": [entry({"offset": 0})]}))
    assert (status, "raymirror stores none for groups" in message) == (501, True)
