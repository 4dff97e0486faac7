"""Configs that are changed for a while: what is changed, what it was, and that only that is restored."""

from engine.flow.failback.lent_configs import change, give_back, keep_tombstones, take_back
from policies.dr.lent_config import LentConfig, as_before, endless_retention
from tests.fakes.loans import FakeLoans
from tests.fakes.settings import FakeSettings

MONTH_MS = 30 * 86_400_000


def cluster() -> FakeSettings:
    made = FakeSettings("B")
    made.put("keys", cleanup_policy="compact", delete_retention_ms="1000")
    made.put("plain")
    made.put("kept", cleanup_policy="compact,delete", delete_retention_ms=str(MONTH_MS))
    made.put("defaults", cleanup_policy="compact")
    return made


async def test_compacted_topics_keep_tombstones_for_longer_and_their_values_are_recorded() -> None:
    there, loans = cluster(), FakeLoans()
    found = await keep_tombstones(there, loans, ["keys", "plain", "kept", "defaults", "gone"], MONTH_MS)
    assert [(one.topic, one.before, one.value) for one in found.lent] == [
        ("defaults", None, str(MONTH_MS)),
        ("keys", "1000", str(MONTH_MS)),
    ]
    assert not found.failed
    assert await keep_tombstones(there, loans, ["keys", "defaults"], MONTH_MS) == type(found)(), "once is enough"
    assert not await give_back(there, found.lent)
    assert (there.own["keys"]["delete.retention.ms"], "delete.retention.ms" in there.own["defaults"]) == ("1000", False)


async def test_a_topic_that_refuses_hides_no_other() -> None:
    there, loans = cluster(), FakeLoans()
    there.failing["keys"] = "TopicAuthorizationFailed"
    found = await keep_tombstones(there, loans, ["keys", "defaults"], MONTH_MS)
    assert [one.topic for one in found.lent] == ["defaults"]
    assert found.failed == {"keys": "TopicAuthorizationFailed"}


async def test_retention_ends_and_what_somebody_else_sets_meanwhile_stays() -> None:
    here = FakeSettings("A")
    here.put("t", retention_ms="5000")
    here.put("u")
    here.put("endless", retention_ms="-1")
    here.put("gone")
    found = (await here.configs(dict.fromkeys(here.partitions, None))).found
    lent = endless_retention(found)
    assert [(one.topic, one.before) for one in lent] == [("gone", None), ("t", "5000"), ("u", None)]
    assert not await change(here, lent)
    assert {here.own[topic]["retention.ms"] for topic in ("t", "u", "endless")} == {"-1"}
    del here.partitions["gone"]
    here.own["u"]["retention.ms"] = "7000"
    assert not await give_back(here, lent)
    assert (here.own["t"]["retention.ms"], here.own["u"]["retention.ms"]) == ("5000", "7000")
    assert not await give_back(here, lent), "a second time changes nothing"
    assert here.own["t"]["retention.ms"] == "5000"


async def test_nothing_is_asked_for_nothing() -> None:
    here = FakeSettings("A")
    assert not await change(here, ())
    assert not await give_back(here, (LentConfig(topic="x", name="retention.ms", before=None, value="-1"),))
    assert not here.writes


async def test_what_is_lent_is_stored_and_taken_back_exactly() -> None:
    there, loans = cluster(), FakeLoans()
    before = {topic: dict(own) for topic, own in there.own.items()}
    await keep_tombstones(there, loans, ["keys", "defaults"], MONTH_MS)
    await keep_tombstones(there, loans, ["keys", "defaults"], 2 * MONTH_MS)  # a second failover, for longer
    assert {(one.topic, one.before, one.value) for one in loans.stored.values()} == {
        ("keys", "1000", str(2 * MONTH_MS)),
        ("defaults", None, str(2 * MONTH_MS)),
    }
    assert not await take_back(there, loans)
    assert (there.own, loans.stored) == (before, {})


async def test_what_cannot_be_taken_back_stays_stored_and_what_somebody_has_set_stays() -> None:
    there, loans = cluster(), FakeLoans()
    await keep_tombstones(there, loans, ["keys", "defaults"], MONTH_MS)
    there.own["defaults"]["delete.retention.ms"] = "7"
    there.failing["keys"] = "TopicAuthorizationFailed"
    assert await take_back(there, loans) == {"keys": "TopicAuthorizationFailed"}
    assert [one.topic for one in loans.stored.values()] == ["keys"]
    there.failing.clear()
    assert not await take_back(there, loans)
    assert (there.own["keys"]["delete.retention.ms"], there.own["defaults"]["delete.retention.ms"]) == ("1000", "7")
    assert not loans.stored


async def test_what_is_lent_is_shown_as_it_was_before() -> None:
    there, loans = cluster(), FakeLoans()
    there.put("logs", retention_ms="5000")
    before = (await there.configs(dict.fromkeys(there.partitions, None))).found
    await keep_tombstones(there, loans, ["keys", "defaults"], MONTH_MS)
    lent = endless_retention({"logs": before["logs"]})
    await change(there, lent)
    found = (await there.configs(dict.fromkeys(there.partitions, None))).found
    assert found != before
    assert as_before(found, (*lent, *await loans.read())) == before
    old = LentConfig(topic="defaults", name="delete.retention.ms", before=None, value=str(MONTH_MS))
    assert "delete.retention.ms" not in as_before(found, (old,))["defaults"], "not set, so nothing is mirrored"
    there.own["keys"]["delete.retention.ms"] = "7"
    found = (await there.configs({"keys": None})).found
    assert as_before(found, await loans.read())["keys"]["delete.retention.ms"].value == "7", "somebody has set it"
