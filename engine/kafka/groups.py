"""The Groups port on real brokers: coordinators found and remembered, many groups per request, each with its outcome.

Coordinators move, load and are away for seconds; what they say then is asked again with growing pauses until the bound.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka.protocol.admin import DescribeConfigsRequest
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest

from engine.clock import backoff_s, now_s, pause
from engine.errors import BrokerUnreachable, ConnectionLost, GroupActive, KafkaRefusal
from engine.flow.ports import Answers, GroupListing, Offsets, Stored
from engine.kafka.cluster import ClusterClient
from engine.kafka.commit_protocol import OFFSET_FETCH_BATCHED, OFFSET_FETCH_KEY, CommitOffsets, FetchOffsets
from engine.kafka.connection import Connection
from engine.kafka.faults import COORDINATOR_RETRY, NONE, error_name
from engine.kafka.group_codec import GroupAnswer, OffsetFetchReader
from engine.kafka.group_protocol import (
    CONSUMER_GROUP_DESCRIBE_KEY,
    FIND_BATCHED,
    FIND_COORDINATOR_KEY,
    ConsumerGroupDescribe,
    DescribeGroups,
    FindCoordinators,
    ListGroups,
)
from engine.parts import parts
from engine.tasks import run_all
from policies.groups import GroupState, state_of
from policies.model import TopicPartition

T = TypeVar("T")
_GROUP = 0
_AT_ONCE = 200
"""Groups per request: answers stay below a megabyte with a hundred partitions each."""
_BROKER_RESOURCE = 4
_RETENTION = "offsets.retention.minutes"
_UNSTABLE, _NOT_FOUND, _UNSUPPORTED_VERSION = 88, 69, 35
_NOT_OF_THE_NEWER = frozenset({_NOT_FOUND, _UNSUPPORTED_VERSION})
"""Codes that ConsumerGroupDescribe answers for a group of the classic protocol, or for any where KIP-848 is off (Kafka
3.7 to 3.9 at their defaults, 4.x by `group.version` or `group.coordinator.rebalance.protocols`): DescribeGroups knows
such groups, and Kafka's own client asks that next (DescribeConsumerGroupsHandler)."""
_AGAIN = COORDINATOR_RETRY | {_UNSTABLE}
_MEMBERS = frozenset({22, 25, 27, 82, 110, 113})
"""Codes of a commit that say: the group has members (IllegalGeneration, UnknownMemberId, RebalanceInProgress,
FencedInstanceId, FencedMemberEpoch, StaleMemberEpoch)."""
_NAMES = {69: "GroupIdNotFound", 88: "UnstableOffsetCommit", 110: "FencedMemberEpoch", 113: "StaleMemberEpoch"}
_RIGHT = "grant Describe on the group (Read on it to commit, and on its topics)"

Verdict = tuple[int, T | None]
"""Error code of a group, and its answer where that is 0."""
Ask = Callable[[Connection, list[str]], Awaitable[Mapping[str, tuple[int, Any]]]]


class KafkaGroups:
    """The groups of one cluster, over its shared control connections; `patience_s` bounds every question."""

    def __init__(self, client: ClusterClient, *, patience_s: float = 20.0) -> None:
        self._client = client
        self._patience_s = patience_s
        self._coordinators: dict[str, int] = {}
        self._reader = OffsetFetchReader()

    async def list_groups(self) -> list[GroupListing]:
        """Ask every broker for the groups it coordinates."""
        found: dict[str, GroupListing] = {}

        async def ask(node: int) -> None:
            for listing in await self._list_at(node):
                found[listing.group] = listing

        await self._client.metadata([])  # brokers may have come since
        await run_all(*(ask(node) for node in self._client.nodes))
        return sorted(found.values(), key=lambda listing: listing.group)

    async def _list_at(self, node: int) -> list[GroupListing]:
        give_up_at_s, attempt = now_s() + self._patience_s, 0
        while True:
            answer = await (await self._client.control(node)).call(ListGroups())
            code = answer.error_code
            if code == NONE:
                return [_listing(row) for row in answer.groups]
            asked = f"groups of broker {node} of cluster {self._client.alias!r}"
            if code not in COORDINATOR_RETRY:
                raise KafkaRefusal(asked, code, error_name(code), _RIGHT)
            if now_s() >= give_up_at_s:
                raise ConnectionLost(f"{asked}: {error_name(code)}")
            attempt += 1
            await pause(backoff_s(attempt))

    async def states(self, groups: Sequence[str]) -> Answers[GroupState]:
        """Ask by the newer protocol, and by the older one for the groups that it does not know."""
        answers: Answers[GroupState] = await self._each(groups, self._describe_newer)
        unknown = [group for group, state in answers.found.items() if state is GroupState.ABSENT]
        older: Answers[GroupState] = await self._each(unknown, _describe_older)
        for group in unknown:
            del answers.found[group]
        return Answers(answers.found | older.found, answers.failed | older.failed)

    async def _describe_newer(self, connection: Connection, groups: list[str]) -> dict[str, tuple[int, GroupState]]:
        if CONSUMER_GROUP_DESCRIBE_KEY not in connection.versions:
            return dict.fromkeys(groups, (NONE, GroupState.ABSENT))
        answer = await connection.call(ConsumerGroupDescribe(groups))
        return {
            row[2]: (NONE, GroupState.ABSENT) if row[0] in _NOT_OF_THE_NEWER else (row[0], state_of(row[3] or ""))
            for row in answer.groups
        }

    async def offsets(self, groups: Sequence[str], *, stable: bool = False) -> Answers[Offsets]:
        """Read many groups per request, one by one from brokers before 3.0 (which know no `stable`)."""

        async def ask(connection: Connection, part: list[str]) -> dict[str, tuple[int, Offsets]]:
            if not connection.supports(OFFSET_FETCH_KEY, OFFSET_FETCH_BATCHED):
                return {group: await _fetch_one(connection, group) for group in part}
            request = FetchOffsets(part, stable=stable).prepare(connection.versions)
            where = request.API_KEY, request.API_VERSION, request.FLEXIBLE_VERSION
            body = await connection.request(*where, [request.encode()], self._patience_s)
            return {answer.group: _judged(answer, stable=stable) for answer in self._reader.read(bytes(body))}

        return await self._each(groups, ask)

    async def commit(self, group: str, offsets: Mapping[TopicPartition, Stored]) -> dict[TopicPartition, str]:
        """Commit as nobody; asked again while the coordinator moves, which is harmless: it is the same commit."""
        request = CommitOffsets(group, _by_topic(offsets))
        refused: dict[TopicPartition, str] = {}

        async def ask(connection: Connection, _part: list[str]) -> dict[str, tuple[int, None]]:
            answer = await connection.call(request)
            refused.clear()
            codes: list[int] = []
            for topic, rows, *_ in answer.topics:
                for partition, code, *_ in rows:
                    codes.append(code)
                    if code != NONE:
                        refused[TopicPartition(topic, partition)] = f"{_name(code)} ({code})"
            if any(code in _MEMBERS for code in codes):
                raise GroupActive(group, self._client.alias)
            again = [code for code in codes if code in _AGAIN]
            return {group: (again[0] if again else NONE, None)}

        answers: Answers[None] = await self._each([group], ask)
        if answers.failed:
            raise ConnectionLost(answers.failed[group])
        return refused

    async def retention_s(self) -> float | None:
        """Ask a broker for `offsets.retention.minutes`."""
        node = self._client.nodes[0]
        request = DescribeConfigsRequest([(_BROKER_RESOURCE, str(node), [_RETENTION])])
        code, _, _, _, entries = (await (await self._client.control(node)).call(request)).resources[0]
        return next((float(entry[1]) * 60 for entry in entries if entry[1]), None) if code == NONE else None

    # --- many groups at their coordinators -----------------------------------------------------------------

    async def _each(self, groups: Sequence[str], ask: Ask) -> Answers[Any]:
        """Ask each group's coordinator, many groups at once; what is not answered within the bound has failed."""
        answers: Answers[Any] = Answers({}, {})
        left, give_up_at_s, attempt = dict.fromkeys(groups, ""), now_s() + self._patience_s, 0
        while True:
            await self._round(left, ask, answers)
            if not left:
                return answers
            if now_s() >= give_up_at_s:
                answers.failed.update(left)
                return answers
            attempt += 1
            await pause(backoff_s(attempt))

    async def _round(self, left: dict[str, str], ask: Ask, answers: Answers[Any]) -> None:
        """Ask once; `left` keeps the groups to ask again, each with why."""
        nodes = await self._coordinate(left, answers)

        async def one(node: int, part: list[str]) -> None:
            try:
                verdicts = await ask(await self._client.control(node), part)
            except (ConnectionLost, BrokerUnreachable) as lost:
                for group in part:
                    left[group] = str(lost)
                    self._coordinators.pop(group, None)
                return
            for group in part:
                self._judge(group, verdicts.get(group, (-1, None)), left, answers)

        await run_all(*(one(node, part) for node, all_ in nodes.items() for part in parts(all_, _AT_ONCE)))

    def _judge(self, group: str, verdict: tuple[int, Any], left: dict[str, str], answers: Answers[Any]) -> None:
        code, found = verdict
        if code in _AGAIN:
            left[group] = self._refusal(group, code)
            if code != _UNSTABLE:
                self._coordinators.pop(group, None)
            return
        del left[group]
        if code == NONE:
            answers.found[group] = found
        else:
            answers.failed[group] = self._refusal(group, code)

    def _refusal(self, group: str, code: int) -> str:
        return str(KafkaRefusal(f"group {group} on cluster {self._client.alias!r}", code, _name(code), _RIGHT))

    async def _coordinate(self, left: dict[str, str], answers: Answers[Any]) -> dict[int, list[str]]:
        """Return the groups by coordinator, as far as coordinators are known."""
        unknown = [group for group in left if group not in self._coordinators]
        try:
            for part in parts(unknown, _AT_ONCE):
                for group, node, code in await self._find(part):
                    if code == NONE:
                        self._coordinators[group] = node
                    elif group in left:
                        self._judge(group, (code, None), left, answers)
        except (ConnectionLost, BrokerUnreachable) as lost:
            left.update({group: str(lost) for group in unknown if group in left and group not in self._coordinators})
        nodes: dict[int, list[str]] = {}
        for group in left:
            if group in self._coordinators:
                nodes.setdefault(self._coordinators[group], []).append(group)
        return nodes

    async def _find(self, groups: list[str]) -> list[tuple[str, int, int]]:
        connection = await self._client.any_connection()
        if connection.supports(FIND_COORDINATOR_KEY, FIND_BATCHED):
            answer = await connection.call(FindCoordinators(groups))
            if any(row[1] not in self._client.nodes for row in answer.coordinators if row[4] == NONE):
                await self._client.metadata([])
            return [(row[0], row[1], row[4]) for row in answer.coordinators]
        found: list[tuple[str, int, int]] = []
        for group in groups:
            older = await connection.call(FindCoordinatorRequest(group, _GROUP))
            found.append((group, older.coordinator_id, older.error_code))
        return found


def _listing(row: tuple[Any, ...]) -> GroupListing:
    # v0 to v2: id, protocol type; v4: state and tags behind; v5: state, type, tags
    return GroupListing(row[0], row[1] or "", row[3].lower() if len(row) == 5 else "")


async def _describe_older(connection: Connection, groups: list[str]) -> dict[str, tuple[int, GroupState]]:
    answer = await connection.call(DescribeGroups(groups))
    return {row[1]: (row[0], state_of(row[2] or "")) for row in answer.groups}


async def _fetch_one(connection: Connection, group: str) -> tuple[int, Offsets]:
    answer = await connection.call(OffsetFetchRequest(group, None))
    stored: Offsets = {
        TopicPartition(topic, partition): (offset, metadata or "")
        for topic, rows in answer.topics
        for partition, offset, metadata, code in rows
        if code == NONE and offset >= 0
    }
    return answer.error_code, stored


def _judged(answer: GroupAnswer, *, stable: bool) -> tuple[int, Offsets]:
    """Return the verdict on a group; a partition with an error is left out, or the group waits for it."""
    if stable and _UNSTABLE in answer.faults.values():
        return _UNSTABLE, answer.stored
    return answer.error_code, answer.stored


def _by_topic(offsets: Mapping[TopicPartition, Stored]) -> list[tuple[str, list[tuple[int, int, str]]]]:
    topics: dict[str, list[tuple[int, int, str]]] = {}
    for (topic, partition), (offset, metadata) in offsets.items():
        topics.setdefault(topic, []).append((partition, offset, metadata))
    return list(topics.items())


def _name(code: int) -> str:
    return _NAMES.get(code) or error_name(code)
