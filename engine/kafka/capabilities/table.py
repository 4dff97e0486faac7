"""The table of capabilities: what raymirror asks of brokers, what each lack costs, and what raymirror does instead.

A capability has one or several ways; a way is the requests that it takes. The versions of a request are those that
raymirror itself speaks, so the table cannot name others. `since` is the first release of Apache Kafka that has it.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec
from aiokafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DescribeClientQuotasRequest,
)
from aiokafka.protocol.api import Request
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from engine.kafka.protocol import admin_codec, codec, requests

Versions = Mapping[int, tuple[int, int]]
"""By API key, the lowest and the highest version that a broker offers."""


class Side(StrEnum):
    """The part of a flow that needs a capability."""

    SOURCE = "source"
    TARGET = "target"


class Weight(StrEnum):
    """What a lack means for a flow."""

    NEEDED = "needed"
    """The flow cannot run."""
    GUARANTEE = "guarantee"
    """The flow runs; something that raymirror otherwise guarantees or does is not there."""
    COMFORT = "comfort"
    """The flow runs as well; something costs more, or is not shown."""


class SpokenRequest(msgspec.Struct, frozen=True):
    """One request: its key and name, and the versions that raymirror speaks and that serve the capability."""

    key: int
    name: str
    versions: tuple[int, ...]

    def is_offered(self, offered: Versions) -> bool:
        """Whether a broker offers one of the versions."""
        low, high = offered.get(self.key, (0, -1))
        return any(low <= version <= high for version in self.versions)

    def lacking_name(self, offered: Versions) -> str:
        """Return the name of a request that a broker lacks, with the least version if it offers other versions."""
        return f"{self.name} {min(self.versions)} or newer" if self.key in offered else self.name


Way = tuple[SpokenRequest, ...]


class Capability(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table; `ways`: the first one that a broker offers is used, and none means a lack."""

    name: str
    sides: frozenset[Side]
    ways: tuple[Way, ...]
    since: str
    weight: Weight
    lost: str
    instead: str

    def absent(self, offered: Versions) -> tuple[str, ...]:
        """Return the requests that a broker lacks for the way that it is nearest to; empty if it has the capability."""
        lacks = [tuple(one.lacking_name(offered) for one in way if not one.is_offered(offered)) for way in self.ways]
        return min(lacks, key=len)


def _of(name: str, request: type[Request[Any]], *, least: int = 0) -> SpokenRequest:
    """Return a request in the versions of its class, from `least` on."""
    classes = request._CLASSES  # noqa: SLF001 - aiokafka has no other list of a request's versions
    found = tuple(one.API_VERSION for one in classes if least <= one.API_VERSION)
    return SpokenRequest(request.API_KEY, name, found)


def _one(name: str, request: tuple[int, int]) -> SpokenRequest:
    """Return a request that raymirror speaks in one version: its key and version."""
    return SpokenRequest(request[0], name, request[1:])


def _fetch(least: int = 0) -> SpokenRequest:
    return SpokenRequest(codec.FETCH_KEY, "Fetch", tuple(one for one in codec.FETCH_VERSIONS if one >= least))


def _produce(least: int = 0) -> SpokenRequest:
    return SpokenRequest(codec.PRODUCE_KEY, "Produce", tuple(one for one in codec.PRODUCE_VERSIONS if one >= least))


_BOTH, _SOURCE, _TARGET = frozenset(Side), frozenset({Side.SOURCE}), frozenset({Side.TARGET})
_INIT = _of("InitProducerId", InitProducerIdRequest)

TRANSACTIONS = "transactions"
TABLE: tuple[Capability, ...] = (
    Capability(
        name="metadata",
        sides=_BOTH,
        ways=(
            (_of("Metadata", MetadataRequest, least=4),),
            (_of("Metadata", requests.MetadataWithEpochs),),
            (_of("Metadata", requests.MetadataWithIds),),
        ),
        since="0.11",
        weight=Weight.NEEDED,
        lost="everything: no leader and no topic is known",
        instead="nothing",
    ),
    Capability(
        name="leader epochs",
        sides=_BOTH,
        ways=(
            (_of("Metadata", requests.MetadataWithIds), _of("ListOffsets", requests.ListOffsetsWithEpochs)),
            (_of("Metadata", requests.MetadataWithEpochs), _of("ListOffsets", requests.ListOffsetsWithEpochs)),
        ),
        since="2.1",
        weight=Weight.GUARANTEE,
        lost="a broker that was deposed as leader, and does not know it, is not recognised by its epoch",
        instead="raymirror believes the newest answer of any broker",
    ),
    Capability(
        name="topic ids",
        sides=_BOTH,
        ways=((_of("Metadata", requests.MetadataWithIds),),),
        since="2.8",
        weight=Weight.GUARANTEE,
        lost="a topic that was deleted and created again under its name is not recognised at once",
        instead="raymirror recognises it by offsets and epochs that do not fit, and then stops the partition",
    ),
    Capability(
        name="reading",
        sides=_SOURCE,
        ways=(
            (
                _fetch(),
                _of("ListOffsets", OffsetRequest, least=1),
            ),
            (
                _fetch(),
                _of("ListOffsets", requests.ListOffsetsWithEpochs),
            ),
        ),
        since="2.1",
        weight=Weight.NEEDED,
        lost="no record can be read",
        instead="nothing",
    ),
    Capability(
        name="history of the log",
        sides=_SOURCE,
        ways=(
            (_fetch(12),),
            (_of("OffsetsForLeaderEpoch", requests.OffsetsForLeaderEpoch),),
        ),
        since="2.1",
        weight=Weight.GUARANTEE,
        lost="a source log that was cut by an unclean election, and grew again, is not recognised",
        instead="raymirror reads on from its offset: records that took the place of copied ones are not copied",
    ),
    Capability(
        name="reading from followers",
        sides=_SOURCE,
        ways=((_fetch(11),),),
        since="2.3",
        weight=Weight.COMFORT,
        lost="client.rack has no effect",
        instead="raymirror reads from the leaders",
    ),
    Capability(
        name="topic configs",
        sides=_SOURCE,
        ways=((_one("DescribeConfigs", admin_codec.DESCRIBE_CONFIGS),),),
        since="1.1",
        weight=Weight.GUARANTEE,
        lost="the configs of topics are not known: missing copies are not created, and configs are not mirrored",
        instead="raymirror copies the topics whose copies exist",
    ),
    Capability(
        name="topic configs of copies",
        sides=_TARGET,
        ways=((_one("DescribeConfigs", admin_codec.DESCRIBE_CONFIGS),),),
        since="1.1",
        weight=Weight.GUARANTEE,
        lost="configs of copies cannot be compared or mirrored; how long brokers remember producers is not known",
        instead="raymirror sets a new barrier after each append whose answer is lost",
    ),
    Capability(
        name="writing",
        sides=_TARGET,
        ways=((_produce(), _INIT),),
        since="2.1",
        weight=Weight.NEEDED,
        lost="no record can be written without the danger that a repeated append doubles it",
        instead="nothing",
    ),
    Capability(
        name="history of copies",
        sides=_TARGET,
        ways=((_of("OffsetsForLeaderEpoch", requests.OffsetsForLeaderEpoch),),),
        since="2.1",
        weight=Weight.COMFORT,
        lost="a new leader is not asked about many copies at once whether it has what was acknowledged",
        instead="raymirror reads the last batch of each copy",
    ),
    Capability(
        name="refused records",
        sides=_TARGET,
        ways=((_produce(8),),),
        since="2.4",
        weight=Weight.COMFORT,
        lost="the target does not say which record of a batch it refuses",
        instead="raymirror names the batch",
    ),
    Capability(
        name=TRANSACTIONS,
        sides=_TARGET,
        ways=(
            (
                _of("FindCoordinator", FindCoordinatorRequest, least=1),
                _INIT,
                _of("AddPartitionsToTxn", AddPartitionsToTxnRequest),
                _of("EndTxn", EndTxnRequest),
            ),
        ),
        since="0.11",
        weight=Weight.GUARANTEE,
        lost="the target does not refuse a stale writer: a request of a copier that was frozen or cut off, and that"
        " arrives after another one took its partition, appends its records a second time; exactly.once.source.support"
        " cannot be used",
        instead="a new owner waits 30 s for such requests, and then reads where the copy ends; a copier without a lease"
        " stops, and reads the stored positions before it goes on; records of two writers are events, and the proof"
        " shows them",
    ),
    Capability(
        name="end of a barrier",
        sides=_TARGET,
        ways=((_of("DescribeTransactions", requests.DescribeTransactions),),),
        since="3.0",
        weight=Weight.COMFORT,
        lost="the coordinator does not say when a barrier is complete",
        instead="raymirror begins and ends a second, empty transaction: one more round trip for each takeover",
    ),
    Capability(
        name="producers of a partition",
        sides=_BOTH,
        ways=((_of("DescribeProducers", requests.DescribeProducers),),),
        since="2.8",
        weight=Weight.GUARANTEE,
        lost="on a target: if retention deletes all that was copied since the last stored position, the place is not"
        " known; a commit without a marker shows only at the next append. On a source: who holds a transaction open",
        instead="raymirror reads the place from the copy's own batches; where none is left, the partition stops",
    ),
    Capability(
        name="creating topics",
        sides=_TARGET,
        ways=((_of("CreateTopics", CreateTopicsRequest, least=1),),),
        since="0.11",
        weight=Weight.GUARANTEE,
        lost="topics that are missing are not created: copies, positions, map, state, events",
        instead="raymirror copies to topics that exist; `check` names those to create",
    ),
    Capability(
        name="growing topics",
        sides=_TARGET,
        ways=((_of("CreatePartitions", CreatePartitionsRequest),),),
        since="1.0",
        weight=Weight.GUARANTEE,
        lost="a copy does not get the partitions that its source topic gets",
        instead="raymirror copies the partitions that the copy has",
    ),
    Capability(
        name="deleting topics",
        sides=_TARGET,
        ways=((_of("DeleteTopics", requests.DeleteTopicById),),),
        since="2.8",
        weight=Weight.COMFORT,
        lost="raymirror.topic.recreated = re-create cannot delete a copy",
        instead="the partition stops until the copy is deleted",
    ),
    Capability(
        name="changing configs",
        sides=_TARGET,
        ways=(
            (_one("IncrementalAlterConfigs", admin_codec.INCREMENTAL_ALTER_CONFIGS),),
            (
                _one("AlterConfigs", admin_codec.ALTER_CONFIGS),
                _one("DescribeConfigs", admin_codec.DESCRIBE_CONFIGS),
            ),
        ),
        since="0.11",
        weight=Weight.GUARANTEE,
        lost="configs of copies are not mirrored after their creation",
        instead="`raymirror drift` shows the differences",
    ),
    Capability(
        name="changing single configs",
        sides=_TARGET,
        ways=((_one("IncrementalAlterConfigs", admin_codec.INCREMENTAL_ALTER_CONFIGS),),),
        since="2.3",
        weight=Weight.GUARANTEE,
        lost="what somebody else changes on a copy's configs, in the moment when raymirror changes them, may be undone",
        instead="raymirror reads the copy's own configs, merges the change and writes all of them (AlterConfigs)",
    ),
    Capability(
        name="consumer groups",
        sides=_BOTH,
        ways=(
            (
                _of("ListGroups", requests.ListGroups),
                _of("DescribeGroups", requests.DescribeGroups),
                _of("FindCoordinator", FindCoordinatorRequest),
                _of("OffsetFetch", OffsetFetchRequest, least=2),
                _of("OffsetCommit", requests.CommitOffsets),
            ),
        ),
        since="0.10.2",
        weight=Weight.GUARANTEE,
        lost="consumer groups are not mirrored",
        instead="raymirror copies the records",
    ),
    Capability(
        name="stable offsets of groups",
        sides=_SOURCE,
        ways=((_of("OffsetFetch", requests.FetchOffsets), _of("FindCoordinator", requests.FindCoordinators)),),
        since="3.0",
        weight=Weight.COMFORT,
        lost="an offset is mirrored although a transaction that commits a newer one is open; a request per group",
        instead="the newer offset is mirrored in the next round",
    ),
    Capability(
        name="ACLs",
        sides=_BOTH,
        ways=(
            (
                _one("DescribeAcls", admin_codec.DESCRIBE_ACLS),
                _one("CreateAcls", admin_codec.CREATE_ACLS),
            ),
        ),
        since="2.0",
        weight=Weight.GUARANTEE,
        lost="ACLs of topics are not mirrored",
        instead="raymirror copies the records",
    ),
    Capability(
        name="quotas",
        sides=_BOTH,
        ways=((_of("DescribeClientQuotas", DescribeClientQuotasRequest),),),
        since="2.6",
        weight=Weight.COMFORT,
        lost="`check` cannot name a quota that limits copying",
        instead="raymirror keeps to a quota as soon as brokers throttle it",
    ),
    Capability(
        name="free disk",
        sides=_BOTH,
        ways=((_of("DescribeLogDirs", requests.DescribeLogDirs),),),
        since="3.3",
        weight=Weight.COMFORT,
        lost="`check` cannot compare the sizes of topics with the target's free disk",
        instead="nothing",
    ),
)


def of_side(side: Side) -> Iterator[Capability]:
    """Yield the capabilities that one side of a flow needs."""
    return (one for one in TABLE if side in one.sides)
