"""Implements the Groups port on real brokers: remembers coordinators, asks for many groups per request.

Coordinators move, load and disappear for seconds. Until its time limit, a question is repeated with growing pauses.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka.protocol.admin import DeleteGroupsRequest
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest

from engine.base.clock import backoff_s, now_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost, GroupActive, KafkaRefusal
from engine.base.parts import parts
from engine.base.tasks import run_all
from engine.flow.ports.ports import Answers, GroupListing, Listed, Offsets, Stored
from engine.kafka.admin.admin import broker_configs
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.connection import Connection
from engine.kafka.protocol.faults import (
    AUTHORIZATION,
    COORDINATOR_RETRY,
    GROUP_AUTHORIZATION_FAILED,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNSUPPORTED_VERSION,
    error_name,
)
from engine.kafka.protocol.group_codec import GroupAnswer, OffsetFetchReader
from engine.kafka.protocol.readable import readable
from engine.kafka.protocol.requests import (
    CommitOffsets,
    ConsumerGroupDescribe,
    DescribeGroups,
    DescribeShareOffsets,
    FetchOffsets,
    FindCoordinators,
    ListGroups,
)
from policies.grants.rights import ResourceKind
from policies.groups import GroupState, state_of
from policies.model import TopicPartition
from policies.sync.acl_sync import Operation

T = TypeVar("T")
_GROUP = 0
_AT_ONCE = 200
"""Groups per request: answers stay below a megabyte with a hundred partitions each."""
_ANSWER_S = 10.0
"""Most seconds for one answer, so that after a frozen coordinator there is time to ask the next one."""
_RETENTION = "offsets.retention.minutes"
_UNSTABLE, _NOT_FOUND = 88, 69
_LOADING = 14
"""CoordinatorLoadInProgress."""
_NOT_OF_THE_NEWER = frozenset({_NOT_FOUND, UNSUPPORTED_VERSION})
"""Codes that ConsumerGroupDescribe answers for a group of the classic protocol, or for any where KIP-848 is off (Kafka
3.7 to 3.9 at their defaults, 4.x by `group.version` or `group.coordinator.rebalance.protocols`). DescribeGroups knows
such groups, and Kafka's own client sends it next (DescribeConsumerGroupsHandler)."""
_AGAIN = COORDINATOR_RETRY | {_UNSTABLE}
_MEMBERS = frozenset({22, 25, 27, 82, 110, 113})
"""Error codes of a commit to a group with members (IllegalGeneration, UnknownMemberId, RebalanceInProgress,
FencedInstanceId, FencedMemberEpoch, StaleMemberEpoch)."""
_NAMES = {
    68: "NonEmptyGroup",
    69: "GroupIdNotFound",
    88: "UnstableOffsetCommit",
    110: "FencedMemberEpoch",
    113: "StaleMemberEpoch",
}

Verdict = tuple[int, T | None]
"""Error code of a group, and its answer if the code is 0."""
Ask = Callable[[Connection, list[str]], Awaitable[Mapping[str, tuple[int, Any]]]]


class KafkaGroups:
    """The groups of one cluster, over its shared control connections; `patience_s` limits every question.

    `away_s`: how long to retry an unreachable coordinator the first time; after that its groups fail at once while it
    stays unreachable. None: `patience_s`.
    """

    def __init__(self, client: ClusterClient, *, patience_s: float = 20.0, away_s: float | None = None) -> None:
        self._client = client
        self._patience_s = patience_s
        self._away_s = patience_s if away_s is None else away_s
        self._answer_s = min(_ANSWER_S, max(1.0, patience_s / 2))
        self._coordinators: dict[str, int] = {}
        self._away: set[int] = set()
        """Coordinators that stayed unreachable until the time limit."""
        self._loading: set[int] = set()
        """Brokers that were loading groups at the last listing."""
        self._reader = OffsetFetchReader()

    async def list_groups(self) -> Listed:
        """Ask every broker for the groups that it coordinates."""
        found: dict[str, GroupListing] = {}
        unheard: dict[int, ConnectionLost | BrokerUnreachable] = {}

        async def ask(node: int) -> None:
            try:
                for listing in await self._list_at(node):
                    found[listing.group] = listing
            except (ConnectionLost, BrokerUnreachable) as failure:
                unheard[node] = failure

        self._loading.clear()
        await self._client.metadata([])  # there may be new brokers
        nodes = self._client.nodes
        await run_all(*(ask(node) for node in nodes))
        if nodes and len(unheard) == len(nodes):
            raise unheard[nodes[0]]
        listed = sorted(found.values(), key=lambda listing: listing.group)
        away = {node: str(failure) for node, failure in sorted(unheard.items())}
        return Listed(listed, away, loading=bool(self._loading))

    async def _list_at(self, node: int) -> list[GroupListing]:
        give_up_at_s, attempt = now_s() + self._patience_s, 0
        while True:
            answer = await (await self._client.control(node)).call(ListGroups(), self._answer_s)
            code = answer.error_code
            if code == NONE:
                return [_listing(row) for row in answer.groups]
            asked = f"groups of broker {node} of cluster {self._client.alias!r}"
            if code not in COORDINATOR_RETRY:
                right = self._client.grantee.needs(Operation.DESCRIBE, ResourceKind.CLUSTER)
                raise KafkaRefusal(asked, code, error_name(code), right if code in AUTHORIZATION else "")
            if now_s() >= give_up_at_s:
                raise ConnectionLost(f"{asked}: {error_name(code)}")
            if code == _LOADING:
                self._loading.add(node)
            attempt += 1
            await pause(backoff_s(attempt))

    async def states(self, groups: Sequence[str]) -> Answers[GroupState]:
        """Ask with the newer request, and with the older one for groups that the newer does not know."""
        answers: Answers[GroupState] = await self._each(groups, self._describe_newer)
        unknown = [group for group, state in answers.found.items() if state is GroupState.ABSENT]
        older: Answers[GroupState] = await self._each(unknown, self._describe_older)
        for group in unknown:
            del answers.found[group]
        return Answers(answers.found | older.found, answers.failed | older.failed, answers.away | older.away)

    async def _describe_newer(self, connection: Connection, groups: list[str]) -> dict[str, tuple[int, GroupState]]:
        if not ConsumerGroupDescribe.spoken_by(connection):
            return dict.fromkeys(groups, (NONE, GroupState.ABSENT))
        answer = await connection.call(ConsumerGroupDescribe(groups), self._answer_s)
        return {
            row[2]: (NONE, GroupState.ABSENT) if row[0] in _NOT_OF_THE_NEWER else (row[0], state_of(row[3] or ""))
            for row in answer.groups
        }

    async def _describe_older(self, connection: Connection, groups: list[str]) -> dict[str, tuple[int, GroupState]]:
        answer = await connection.call(DescribeGroups(groups), self._answer_s)
        return {row[1]: (row[0], state_of(row[2] or "")) for row in answer.groups}

    async def offsets(self, groups: Sequence[str], *, stable: bool = False) -> Answers[Offsets]:
        """Read many groups per request; one by one from brokers before 3.0 (which do not know `stable`)."""

        async def ask(connection: Connection, part: list[str]) -> dict[str, tuple[int, Offsets]]:
            if not FetchOffsets.spoken_by(connection):
                return {group: await self._fetch_one(connection, group) for group in part}
            request = FetchOffsets(part, stable=stable).prepare(connection.versions)
            where = request.API_KEY, request.API_VERSION, request.FLEXIBLE_VERSION
            body = await connection.request(*where, [request.encode()], self._answer_s)
            with readable(connection.address):
                answers = self._reader.read(bytes(body))
            return {answer.group: _judged(answer, stable=stable) for answer in answers}

        return await self._each(groups, ask)

    async def _fetch_one(self, connection: Connection, group: str) -> tuple[int, Offsets]:
        answer = await connection.call(OffsetFetchRequest(group, None), self._answer_s)
        stored: Offsets = {
            TopicPartition(topic, partition): (offset, metadata or "")
            for topic, rows in answer.topics
            for partition, offset, metadata, code in rows
            if code == NONE and offset >= 0
        }
        return answer.error_code, stored

    async def share_offsets(self, groups: Sequence[str]) -> Answers[Offsets]:
        """Return where share groups start (KIP-932); they have no commits. Brokers before 4.1 cannot say it."""

        async def ask(connection: Connection, part: list[str]) -> dict[str, tuple[int, Offsets]]:
            if not DescribeShareOffsets.spoken_by(connection):
                return {group: (UNSUPPORTED_VERSION, {}) for group in part}
            answer = await connection.call(DescribeShareOffsets(part), self._answer_s)
            return {
                group: (
                    code,
                    {
                        TopicPartition(topic, row[0]): (row[1], "")
                        for topic, _, partitions, *_ in topics
                        for row in partitions
                        if row[3] == NONE
                    },
                )
                for group, topics, code, *_ in answer.groups
            }

        return await self._each(groups, ask)

    async def commit(self, group: str, offsets: Mapping[TopicPartition, Stored]) -> dict[TopicPartition, str]:
        """Commit without being a member. Repeat while the coordinator moves; repeating the same commit is harmless."""
        request = CommitOffsets(group, _by_topic(offsets))
        refused: dict[TopicPartition, str] = {}

        async def ask(connection: Connection, _part: list[str]) -> dict[str, tuple[int, None]]:
            answer = await connection.call(request, self._answer_s)
            refused.clear()
            codes: list[int] = []
            for topic, rows, *_ in answer.topics:
                for partition, code, *_ in rows:
                    codes.append(code)
                    if code != NONE:
                        refused[TopicPartition(topic, partition)] = self._why_refused(group, topic, code)
            if any(code in _MEMBERS for code in codes):
                raise GroupActive(group, self._client.alias)
            again = [code for code in codes if code in _AGAIN]
            return {group: (again[0] if again else NONE, None)}

        answers: Answers[None] = await self._each([group], ask)
        if answers.failed:
            raise ConnectionLost(answers.failed[group])
        return refused

    async def delete(self, groups: Sequence[str]) -> dict[str, str]:
        """Delete groups without members, with their offsets; return those that are still there, and why.

        A group that does not exist is no error.
        """

        async def ask(connection: Connection, part: list[str]) -> dict[str, tuple[int, None]]:
            answer = await connection.call(DeleteGroupsRequest(part), self._answer_s)
            return {row[0]: (NONE if row[1] == _NOT_FOUND else row[1], None) for row in answer.results}

        answers: Answers[None] = await self._each(groups, ask)
        return answers.failed

    def _why_refused(self, group: str, topic: str, code: int) -> str:
        """Say why a commit for a topic was refused, and which right is missing."""
        why, grantee = f"{_name(code)} ({code})", self._client.grantee
        if code == TOPIC_AUTHORIZATION_FAILED:
            return f"{why}; {grantee.needs_on_topic(Operation.READ, topic)}"
        if code == GROUP_AUTHORIZATION_FAILED:
            return f"{why}; {grantee.needs(Operation.READ, ResourceKind.GROUP, group)}"
        return why

    async def retention_s(self) -> float | None:
        """Return the shortest `offsets.retention.minutes` of the brokers that answer, in seconds."""
        told = await broker_configs(self._client, [_RETENTION])
        values = [float(configs[_RETENTION]) * 60 for configs in told.values() if _RETENTION in configs]
        return min(values, default=None)

    # --- many groups at their coordinators -----------------------------------------------------------------

    async def _each(self, groups: Sequence[str], ask: Ask) -> Answers[Any]:
        """Ask each group's coordinator, many groups at once; a group without an answer in time has failed."""
        answers: Answers[Any] = Answers({}, {})
        left, began_s, attempt = dict.fromkeys(groups, ""), now_s(), 0
        give_up_at_s = began_s + self._patience_s
        while True:
            away = await self._round(left, ask, answers)
            self._give_up(left, away, answers, late=now_s() >= began_s + self._away_s)
            if not left:
                return answers
            if now_s() >= give_up_at_s:
                answers.failed.update(left)
                return answers
            attempt += 1
            await pause(backoff_s(attempt))

    async def _round(self, left: dict[str, str], ask: Ask, answers: Answers[Any]) -> dict[str, int]:
        """Ask once; `left` keeps the groups to ask again, with reasons. Return those with unreachable coordinators."""
        nodes = await self._coordinate(left, answers)
        away: dict[str, int] = {}

        async def one(node: int, part: list[str]) -> None:
            try:
                verdicts = await ask(await self._client.control(node), part)
            except (ConnectionLost, BrokerUnreachable) as lost:
                for group in part:
                    left[group] = f"group {group}: its coordinator is broker {node}: {lost}"
                    self._coordinators.pop(group, None)
                    if isinstance(lost, BrokerUnreachable):
                        away[group] = node
                return
            self._away.discard(node)
            for group in part:
                self._judge(group, verdicts.get(group, (-1, None)), left, answers)

        await run_all(*(one(node, part) for node, all_ in nodes.items() for part in parts(all_, _AT_ONCE)))
        return away

    def _give_up(self, left: dict[str, str], away: Mapping[str, int], answers: Answers[Any], *, late: bool) -> None:
        """Give up the groups of unreachable coordinators; at once if these were unreachable the last time."""
        for group, node in away.items():
            if late or node in self._away:
                answers.failed[group] = left.pop(group)
                answers.away[group] = node
        if late:
            self._away.update(away.values())

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
        right, grantee = "", self._client.grantee
        if code == TOPIC_AUTHORIZATION_FAILED:  # from 4.0 on a broker shows a group only to who may see its topics
            right = f"grant Describe on all topics that the group reads to {grantee.who}"
        elif code in AUTHORIZATION:
            right = grantee.needs(Operation.DESCRIBE, ResourceKind.GROUP, group)
        return str(KafkaRefusal(f"group {group} on cluster {self._client.alias!r}", code, _name(code), right))

    async def _coordinate(self, left: dict[str, str], answers: Answers[Any]) -> dict[int, list[str]]:
        """Return the groups by coordinator; groups without a known coordinator are left out."""
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
        if FindCoordinators.spoken_by(connection):
            answer = await connection.call(FindCoordinators(groups), self._answer_s)
            if any(row[1] not in self._client.nodes for row in answer.coordinators if row[4] == NONE):
                await self._client.metadata([])
            return [(row[0], row[1], row[4]) for row in answer.coordinators]
        found: list[tuple[str, int, int]] = []
        for group in groups:
            older = await connection.call(FindCoordinatorRequest(group, _GROUP), self._answer_s)
            found.append((group, older.coordinator_id, older.error_code))
        return found


def _listing(row: tuple[Any, ...]) -> GroupListing:
    # v0 to v2: id, protocol type; v4: also state, tags; v5: also state, type, tags
    return GroupListing(row[0], row[1] or "", row[3].lower() if len(row) == 5 else "")


def _judged(answer: GroupAnswer, *, stable: bool) -> tuple[int, Offsets]:
    """Return the verdict on a group. A partition with an error is left out; if `stable`, the group waits for it."""
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
