"""What a cluster's brokers can do, by the versions that each connection was told and by a few answers."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from engine.base.errors import BrokerUnreachable, KafkaRefusal
from engine.kafka.capabilities import probe as probing
from engine.kafka.capabilities.probe import judge, probe
from engine.kafka.capabilities.table import TRANSACTIONS, Side, Versions, Weight
from engine.kafka.client.cluster import ClusterClient
from tests.unit.engine.kafka.capabilities.test_table import RELEASES

NEW, OLD = RELEASES["4.3"], RELEASES["2.5"]


class Connection:
    def __init__(self, versions: Versions) -> None:
        self.versions = versions


class Client:
    """Brokers by id; one without versions cannot be reached."""

    alias = "b"

    def __init__(self, brokers: Mapping[int, Versions | None]) -> None:
        self.brokers = brokers

    @property
    def nodes(self) -> list[int]:
        return list(self.brokers)

    async def control(self, node: int) -> Connection:
        versions = self.brokers[node]
        if versions is None:
            raise BrokerUnreachable("b:1", "refused")
        return Connection(versions)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """`rights`: what the question for rights raises; `configs`: what brokers tell; `asked`: for which id."""
    found: dict[str, Any] = {"rights": None, "configs": {}, "asked": []}

    async def missing_rights(_client: object, transactional_id: str) -> tuple[str, ...]:
        found["asked"].append(transactional_id)
        if found["rights"] is not None:
            raise found["rights"]
        return ()

    async def broker_configs(_client: object, names: object) -> dict[int, dict[str, str]]:
        return dict(found["configs"])

    monkeypatch.setattr(probing, "missing_rights", missing_rights)
    monkeypatch.setattr(probing, "broker_configs", broker_configs)
    return found


def client(brokers: Mapping[int, Versions | None]) -> ClusterClient:
    return cast("ClusterClient", Client(brokers))


def test_in_a_mixed_cluster_the_brokers_that_lack_something_are_named() -> None:
    found = judge("b", {1: NEW, 2: OLD, 3: OLD})
    lacks = {one.name: one for one in found.lacks(Side.TARGET)}
    assert lacks.keys() >= {"topic ids", "producers of a partition", "end of a barrier"}
    assert (lacks["topic ids"].brokers, lacks["topic ids"].requests) == ((2, 3), ("Metadata 10 or newer",))
    assert lacks["topic ids"].weight is Weight.GUARANTEE
    assert not found.has("topic ids")
    assert found.has(TRANSACTIONS)
    assert "reading from followers" not in {one.name for one in found.lacks(Side.SOURCE)}


async def test_brokers_that_cannot_be_reached_are_left_out(answers: dict[str, Any]) -> None:
    answers["configs"] = {
        1: {"message.max.bytes": "100"},
        2: {"message.max.bytes": "200", "auto.create.topics.enable": "false"},
    }
    found = await probe(client({1: NEW, 2: None, 3: NEW}), None)
    assert (found.brokers, [one.name for one in found.abilities if not one.has]) == ((1, 3), [])
    assert found.settings == {"message.max.bytes": ("100", "200"), "auto.create.topics.enable": ("false",)}
    assert answers["asked"] == [], "only a target is asked about transactions"


async def test_a_target_that_offers_transactions_and_does_not_support_them_lacks_them(answers: dict[str, Any]) -> None:
    answers["rights"] = KafkaRefusal("transactions", 35, "UnsupportedVersion", "")
    (lack,) = [one for one in (await probe(client({1: NEW}), "raymirror.check")).abilities if not one.has]
    assert (lack.name, lack.requests, lack.brokers) == (TRANSACTIONS, ("EndTxn",), (1,))
    assert "stale writer" in lack.lost
    answers["rights"] = KafkaRefusal("transactions", 41, "NotController", "")
    with pytest.raises(KafkaRefusal):
        await probe(client({1: NEW}), "raymirror.check")


async def test_a_target_that_does_not_offer_transactions_is_not_asked_for_them(answers: dict[str, Any]) -> None:
    without = {key: versions for key, versions in NEW.items() if key not in (24, 26)}
    (lack,) = [one for one in (await probe(client({1: without}), "raymirror.check")).abilities if not one.has]
    assert (lack.name, lack.requests, answers["asked"]) == (TRANSACTIONS, ("AddPartitionsToTxn", "EndTxn"), [])
