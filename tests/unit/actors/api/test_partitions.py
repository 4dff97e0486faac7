"""Lists of topics, partitions and proofs: filters, order, parts, and why one stands still."""

from typing import Any

import msgspec
import pytest

from actors.api.partitions import BEHIND, STATE
from actors.model.status import TopicStatus
from tests.unit.actors.rest.rest_views import ask, error, shown, status_with, view_of
from tests.unit.actors.telemetry.statuses import flow_proof, lane, unowned

FLOW = "/api/v1/flows/A-%3EB"
STATUS = status_with(
    lane("orders", 0, at=100, end=110, lag_bytes=1000, behind_ms=5000),
    lane("orders", 1, at=110, end=110),
    lane("orders", 10, at=0, end=500, lag_bytes=9, behind_ms=100, state="failed", reason="too large"),
    lane("a", 0, at=1, end=3, lag_bytes=50_000, behind_ms=60_000),
    lane("silent", 0, heard_ms_ago=60_000),
    unowned("z", 0),
    lane("orders", 0, flow="B->A"),
)
STATUS = msgspec.structs.replace(
    STATUS,
    topics=(TopicStatus(flow="A->B", topic="orders", records=60, wire_bytes=600, latency_ms=1),),
    proofs={"A->B": flow_proof()},
)
VIEW = view_of(STATUS)


def get(path: str) -> Any:
    answer = ask("GET", FLOW + path, view=VIEW)
    assert answer.status == 200, answer
    return shown(answer)


def names(path: str) -> list[str]:
    return [f"{one['topic']}-{one['partition']}" for one in get(path)["partitions"]]


def test_partitions_are_ordered_by_topic_and_number() -> None:
    assert names("/partitions") == ["a-0", "orders-0", "orders-1", "orders-10", "silent-0", "z-0"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("topic=orders", ["orders-0", "orders-1", "orders-10"]),
        ("q=ders-1", ["orders-1", "orders-10"]),
        ("state=failed", ["orders-10"]),
        ("state=silent", ["silent-0"]),
        ("state=behind", ["a-0", "orders-0", "orders-10", "silent-0", "z-0"]),
        ("state=settling", []),
        ("state=", ["a-0", "orders-0", "orders-1", "orders-10", "silent-0", "z-0"]),
        ("limit=0", []),
        ("sort=records&limit=2", ["orders-10", "orders-0"]),
        ("sort=bytes&limit=1", ["a-0"]),
        ("sort=seconds&limit=1", ["a-0"]),
        ("offset=4&limit=1", ["silent-0"]),
        ("offset=99", []),
    ],
)
def test_partitions_are_chosen_on_the_server(query: str, expected: list[str]) -> None:
    assert names(f"/partitions?{query}") == expected


def test_a_part_says_how_many_there_are() -> None:
    found = get("/partitions?topic=orders&state=failed&limit=1")
    assert (found["total"], found["offset"], found["limit"]) == (1, 0, 1)
    assert found["states"] == {"copying": 2, "failed": 1}, "of all that match without the state"


def test_a_partition_says_why_it_stands_still() -> None:
    whys = {f"{one['topic']}-{one['partition']}": one["why"] for one in get("/partitions")["partitions"]}
    assert whys["orders-10"] == "too large"
    assert whys["silent-0"] == "no broker of the source answers for it"
    assert whys["z-0"] == "waits for a copier"
    assert whys["orders-1"] == ""


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("limit=1001", "limit=1001 is no number from 0 to 1,000"),
        ("limit=x", "limit=x is no number"),
        ("state=typo", "state=typo is unknown; it may be: acquiring, copying, "),
        ("state=failed&state=typo", "state=typo is unknown"),
        ("offset=-1", "offset=-1 is no number from 0"),
        ("sort=size", "sort=size is unknown; it may be: name, records, bytes, seconds"),
    ],
)
def test_a_query_that_cannot_be_is_refused(query: str, said: str) -> None:
    status, message = error(ask("GET", f"{FLOW}/partitions?{query}", view=VIEW))
    assert status == 400
    assert message.startswith(said)


def test_every_state_that_a_partition_may_have_is_permitted() -> None:
    assert {one["state"] for one in get("/partitions")["partitions"]} <= {*STATE.values}
    assert {"copying", "paused", "unowned", "silent", "failed", BEHIND} <= {*STATE.values}
    assert "watching" not in STATE.values, "it is shown as copying, so it would find nothing"


def test_an_unknown_flow_is_404_and_names_the_others() -> None:
    assert error(ask("GET", "/api/v1/flows/x/partitions", view=VIEW)) == (
        404,
        "No flow 'x' in this mirror; it has: A->B",
    )


def test_topics_sum_up_their_partitions() -> None:
    topics = {one["topic"]: one for one in get("/topics")["topics"]}
    assert list(topics) == ["a", "orders", "silent", "z"]
    orders = topics["orders"]
    assert orders["partitions"] == 3
    assert orders["states"] == {"copying": 2, "failed": 1}
    assert orders["why"] == "too large"
    assert (orders["lag_records"], orders["lag_bytes"], orders["lag_seconds"]) == (510, 1009, 5.0)
    assert (orders["records"], orders["bytes"]) == (60, 600)
    assert (topics["silent"]["lag_records"], topics["silent"]["least_records"]) == (None, 10)
    assert (topics["z"]["lag_records"], topics["z"]["least_records"], topics["z"]["unknown"]) == (None, 0, 1)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("q=er", ["orders"]),
        ("state=failed", ["orders"]),
        ("state=behind", ["a", "orders", "silent", "z"]),
        ("sort=records&limit=1", ["orders"]),
        ("sort=bytes&limit=1", ["a"]),
        ("sort=seconds", ["a", "orders", "silent", "z"]),
        ("offset=1&limit=1", ["orders"]),
    ],
)
def test_topics_are_chosen_on_the_server(query: str, expected: list[str]) -> None:
    assert [one["topic"] for one in get(f"/topics?{query}")["topics"]] == expected


def test_a_flow_before_its_first_discovery_says_what_it_waits_for() -> None:
    view = view_of(status_with(discovered=False, lanes=0, topics=0))
    found = shown(ask("GET", f"{FLOW}/topics", view=view))
    assert (found["topics"], found["not_discovered"]) == ([], "a discovery of topics")


def test_proofs_say_what_is_proven_and_what_is_not_yet() -> None:
    status = status_with(lane("t", 0, at=100))
    view = view_of(msgspec.structs.replace(status, proofs={"A->B": flow_proof(at=60)}))
    found = shown(ask("GET", f"{FLOW}/proofs", view=view))
    assert found["proof"]["differences"] == 2
    proven, unproven = found["partitions"]
    assert (proven["proven_from"], proven["proven_to"], proven["unproven"]) == (0, 60, 40)
    assert (unproven["partition"], unproven["proven_to"], unproven["unproven"]) == (9, None, None)


def test_without_continuous_proof_there_is_none() -> None:
    view = view_of(msgspec.structs.replace(STATUS, proofs={}))
    found = shown(ask("GET", f"{FLOW}/proofs", view=view))
    assert (found["proof"], found["partitions"], found["total"]) == (None, [], 0)
