"""Epochs of a log: compared with the copied ones on brokers below Fetch v12, and asked for by a command."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from engine.base.errors import ConnectionLost
from engine.flow.ports.ports import FetchOptions, Leader, PartitionFetch
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.connection import Connection
from engine.kafka.client.metadata import Metadata, PartitionMeta, TopicMeta
from engine.kafka.data.epochs import EpochCheck, Parted, epoch_ends
from engine.kafka.data.source import KafkaSourceBroker
from engine.kafka.protocol.requests import MetadataWithEpochs, OffsetsForLeaderEpoch
from policies.model import TopicPartition
from tests.unit.engine.kafka.data.test_source import Fresh, Wire, answer

VERSIONS = {23: (2, 4), 3: (0, 13)}


class Asked(Wire):
    """A connection that also answers where epochs end."""

    def __init__(self, *versions: int, knows: bool = True) -> None:
        super().__init__(*versions)
        self.knows = knows
        self.questions: list[Any] = []
        self.ends: dict[tuple[str, int], tuple[int, int, int]] = {}

    def supports(self, api_key: int, version: int) -> bool:
        return self.knows if api_key == 23 else super().supports(api_key, version)

    async def call(self, request: OffsetsForLeaderEpoch) -> Any:
        self.questions.append(request.fields[0])
        rows = [
            (topic, [(self.ends[topic, one][0], one, *self.ends[topic, one][1:])])
            for topic, asked in request.fields[0]
            for one, _, _ in asked
            if (topic, one) in self.ends
        ]
        return SimpleNamespace(topics=rows)


def want(partition: int, offset: int, leader_epoch: int = 7, last_epoch: int = 5, topic: str = "t") -> PartitionFetch:
    return PartitionFetch(TopicPartition(topic, partition), offset, leader_epoch, last_epoch, 100)


def check(wire: Asked) -> EpochCheck:
    return EpochCheck(cast("Connection", wire))


@pytest.mark.parametrize(
    ("end", "verdict"),
    [
        ((0, 5, 10), None),
        ((0, 5, 11), None),
        ((0, 5, 9), Parted(0, (5, 9))),
        ((0, 4, 10), Parted(0, (4, 10))),
        ((0, 4, 99), Parted(0, (4, 99))),
        ((0, -1, -1), Parted(1)),
        ((74, -1, -1), Parted(74)),
        ((6, -1, -1), None),
        (None, Parted(-1)),
    ],
)
async def test_what_an_answer_means(end: tuple[int, int, int] | None, verdict: Parted | None) -> None:
    wire = Asked(11)
    if end is not None:
        wire.ends["t", 0] = end
    found = await check(wire).parted([want(0, 10)])
    assert found == ({} if verdict is None else {TopicPartition("t", 0): verdict})


async def test_it_is_asked_once_per_leader_epoch() -> None:
    wire = Asked(11)
    wire.ends = {("t", 0): (0, 5, 50), ("t", 1): (0, 5, 50), ("u", 0): (0, 5, 50)}
    epochs = check(wire)
    assert await epochs.parted([want(0, 10), want(1, 10), want(0, 10, topic="u"), want(3, 0, last_epoch=-1)]) == {}
    assert wire.questions == [[("t", [(0, 7, 5), (1, 7, 5)]), ("u", [(0, 7, 5)])]]
    wire.questions.clear()
    assert await epochs.parted([want(0, 20, last_epoch=6), want(1, 10)]) == {}
    assert wire.questions == []
    # Another leader, or a position of an older history, is asked about.
    await epochs.parted([want(0, 20, leader_epoch=8), want(1, 10, last_epoch=4)])
    assert wire.questions == [[("t", [(0, 8, 5), (1, 7, 4)])]]


async def test_what_parted_is_asked_about_again() -> None:
    wire = Asked(11)
    wire.ends["t", 0] = (0, 5, 9)
    epochs = check(wire)
    for _ in range(2):
        assert await epochs.parted([want(0, 10)])
    assert len(wire.questions) == 2


async def test_a_broker_that_cannot_say_is_not_asked() -> None:
    wire = Asked(11, knows=False)
    assert await check(wire).parted([want(0, 10)]) == {}
    assert wire.questions == []


def broker(wire: Asked) -> KafkaSourceBroker:
    return KafkaSourceBroker(cast("Connection", wire), {})


@pytest.mark.parametrize("versions", [(11, 12), (11, 12, 13)])
async def test_brokers_that_tell_by_themselves_are_not_asked(versions: tuple[int, ...]) -> None:
    wire = Asked(*versions)
    wire.answers = [answer(12, 0)]
    await broker(wire).fetch([want(0, 10)], FetchOptions(), Fresh())
    assert wire.questions == []


async def test_what_parted_is_told_as_a_newer_broker_would_and_not_fetched() -> None:
    wire = Asked(11)
    wire.ends = {("t", 0): (0, 5, 9), ("t", 1): (0, 5, 50), ("t", 2): (75, -1, -1)}
    whole = b"\0\0\0\0" + b"\0\0" + b"\0\0\0\0" + b"\0\0\0\0"
    wire.answers = [whole]
    source = broker(wire)
    found = {
        one.partition.partition: one
        for one in (await source.fetch([want(0, 10), want(1, 10), want(2, 10)], FetchOptions(), Fresh())).slices
    }
    assert found.keys() == {0, 2}
    assert (found[0].diverging, found[0].fault, found[0].high_watermark) == ((5, 9), None, -1)
    assert found[2].fault is not None
    assert (found[2].fault.name, found[2].fault.retry, found[2].diverging) == ("UnknownLeaderEpoch", True, None)
    ((_, sent),) = wire.sent
    assert sent.count(b"\0\x01t") == 1
    assert sent[25:32] == b"\0\0\0\x01\0\x01t"
    assert sent[32:40] == b"\0\0\0\x01\0\0\0\x01"  # one partition: number 1
    # With nothing left to fetch, nothing is sent.
    answered = await source.fetch([want(0, 10)], FetchOptions(), Fresh())
    assert (len(wire.sent), [one.diverging for one in answered.slices]) == (1, [(5, 9)])


class Lost(Asked):
    """A connection that is gone when it is asked."""

    async def call(self, request: OffsetsForLeaderEpoch) -> Any:
        raise ConnectionLost(self.address)


async def test_a_lost_connection_is_the_callers() -> None:
    with pytest.raises(ConnectionLost):
        await broker(Lost(11)).fetch([want(0, 10)], FetchOptions(), Fresh())


def test_the_question_as_bytes() -> None:
    """OffsetForLeaderEpochRequest.json, version 3: replica id, topics, partitions with both epochs."""
    encoded = OffsetsForLeaderEpoch([("t", [(2, 7, 5)])]).prepare(VERSIONS).encode()
    assert encoded.hex() == "ffffffff0000000100017400000001000000020000000700000005"


def test_the_question_to_brokers_of_2_1_names_no_replica() -> None:
    """OffsetsForLeaderEpochRequest.java of 2.1, version 2."""
    encoded = OffsetsForLeaderEpoch([("t", [(2, 7, 5)])]).prepare({23: (0, 2)}).encode()
    assert encoded.hex() == "0000000100017400000001000000020000000700000005"


@pytest.mark.parametrize(("topics", "encoded"), [(None, "ffffffff00"), (["t"], "0000000100017400")])
def test_metadata_with_epochs_as_bytes(topics: list[str] | None, encoded: str) -> None:
    """MetadataRequest.json, version 7: topics (null asks for all), no topic is created."""
    assert MetadataWithEpochs(topics).prepare(VERSIONS).encode().hex() == encoded


# --- for a command ---------------------------------------------------------------------------------------------------


class Leaders:
    """A client of three brokers: 1 answers, 2 cannot be asked, 3 does not know the request; t-3 has no leader."""

    alias = "a"

    def __init__(self) -> None:
        self.wire = Asked(11)

    async def metadata(self, topics: list[str]) -> Metadata:
        led = {number: PartitionMeta(node, 7, (1,)) for number, node in enumerate((1, 2, 3, -1, 1))}
        return Metadata("i", 1, {}, {topic: TopicMeta(0, UUID(int=7), False, led) for topic in topics if topic == "t"})

    async def control(self, node: int) -> Any:
        if node == 2:
            raise ConnectionLost("down")
        return self.wire if node == 1 else Asked(11, knows=False)


async def test_epochs_of_partitions_whose_leader_does_not_answer_are_left_out() -> None:
    leaders = Leaders()
    leaders.wire.ends = {("t", 0): (0, 5, 9), ("t", 4): (75, -1, -1)}
    asked = {TopicPartition("t", number): 5 for number in range(5)} | {TopicPartition("u", 0): 5}
    assert await epoch_ends(cast("ClusterClient", leaders), asked) == {TopicPartition("t", 0): (5, 9)}
    assert leaders.wire.questions == [[("t", [(0, 7, 5), (4, 7, 5)])]]


async def test_leaders_that_are_named_are_asked_at_their_epochs() -> None:
    leaders = Leaders()
    leaders.wire.ends = {("t", 2): (0, 5, 9)}
    where, nobody = TopicPartition("t", 2), TopicPartition("t", 3)
    led = {where: Leader(1, 8, "id"), nobody: Leader(-1, -1, "")}
    assert await epoch_ends(cast("ClusterClient", leaders), {where: 5, nobody: 5}, led) == {where: (5, 9)}
    assert leaders.wire.questions == [[("t", [(2, 8, 5)])]]
