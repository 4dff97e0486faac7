"""Translates the offsets of one group, for `raymirror translate`, and commits them on the target with `apply`.

It runs without Ray: it reads what copiers wrote, and writes only commits. If the source does not answer, it uses the
group's last checkpoints, with their times.
"""

from collections.abc import Collection, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from engine.base.errors import MirrorError, WrongQuestion
from engine.base.opened import Opened
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.reports.translated import Translated, TranslationRow
from engine.flow.groups.expiry import skipping
from engine.flow.groups.group_commits import CommitRules, GroupCommits
from engine.flow.groups.translations import TranslatedOffset, with_reason
from engine.flow.lane.bisection import log_spans
from engine.flow.ports.ports import Answers, Offsets
from engine.flow.topic_logs.checkpoints import CheckpointLog
from engine.flow.topic_logs.last_known import LastKnown
from engine.kafka.admin.flow_clusters import check_clusters
from engine.kafka.admin.reach import open_source, tell_apart
from engine.kafka.groups.groups import KafkaGroups
from engine.services.clients import clients_of
from engine.services.maps import clusters_of, last_known_of, translations_of
from policies.groups import GroupState, WrittenCheckpoint
from policies.model import TopicPartition

CLIENT_ID = "raymirror-translate"
CHECKPOINT = "last checkpoint"
"""The value of `how` for an offset that is known while the source does not answer."""
T = TypeVar("T")


class UnknownGroup(WrongQuestion):
    """A group without members or commits on the source: group, cluster."""

    def __init__(self, group: str, cluster: str) -> None:
        super().__init__(group, cluster)
        self.group, self.cluster = group, cluster

    def __str__(self) -> str:
        return f"group {self.group!r} has neither members nor commits on cluster {self.cluster!r}; check its name"


class NoCheckpoint(MirrorError):
    """A group without checkpoints, while the source does not answer: group, checkpoints topic, target, why."""

    def __init__(self, group: str, topic: str, target: str, why: str) -> None:
        super().__init__(group, topic, target, why)
        self.group, self.topic, self.target, self.why = group, topic, target, why

    def __str__(self) -> str:
        return (
            f"the source does not answer ({self.why}), and topic {self.topic} on cluster {self.target!r} has no"
            f" checkpoint of group {self.group!r}, so its offsets are not known; check its name"
        )


class GroupFailed(MirrorError):
    """A cluster does not answer for a group, or refuses its commits: group, why."""

    exit_code = 1  # the command ran, and failed for this group

    def __init__(self, group: str, why: str) -> None:
        super().__init__(group, why)
        self.group, self.why = group, why

    def __str__(self) -> str:
        return self.why


class GroupTranslator(Opened):
    """One group of one flow, over connections of its own, as an async context.

    Raises BrokerUnreachable if the target does not answer, OtherCluster, SameCluster. If the source does not answer,
    `gone` says why.
    """

    def __init__(
        self,
        config: MirrorConfig,
        flow: FlowConfig,
        group: str,
        *,
        backwards: bool = False,
    ) -> None:
        self._flow, self._group = flow, group
        self._clients = clients_of(config, flow.name, CLIENT_ID)
        source, target = clusters_of(flow, self._clients)
        self._source, self._target = (KafkaGroups(client) for client in self._clients)
        self._translations = translations_of(flow, source, target)
        self._commits = GroupCommits(
            flow.name, self._target, self._translations, rules=CommitRules(backwards=backwards, ends=False)
        )
        self._from, self._cluster = source, target
        self._log = CheckpointLog(target, flow.naming.checkpoints_topic(flow.name.source), flow.request_timeout_s)
        self.gone = ""
        """Why the source cannot be asked; empty if it answers."""

    async def _open(self) -> None:
        source, target = self._clients
        await target.open()
        self.gone = await open_source(source)
        await check_clusters(self._flow, None if self.gone else source, target)
        self.gone = self.gone or await tell_apart(self._flow, source, target)

    async def _close(self) -> None:
        await self._log.close()
        for client in self._clients:
            await client.close()

    async def translate(self, *, apply: bool = False, stable: bool = False) -> Translated:
        """Translate the group's current offsets; `apply` first commits them on the target, if it has no members there.

        Raises UnknownGroup, NoCheckpoint, GroupFailed, ConnectionLost, BrokerUnreachable.
        """
        if self.gone:
            return await self._look_back(apply=apply)
        state = await self._ask(self._source.states([self._group]))
        commits = await self._ask(self._source.offsets([self._group], stable=stable))
        if state is GroupState.ABSENT and not commits:
            raise UnknownGroup(self._group, self._flow.name.source)
        places = await self._translations.places({self._group: commits})
        if apply:
            await self._commit(places[self._group])
        # behind the commit, which asks for the ends that were read for these places
        skips = {lane for _, lane in await skipping(self._from, self._translations, places)}
        stored = await self._ask(self._target.offsets([self._group]))
        there = await self._ask(self._target.states([self._group]))
        return Translated(
            flow=str(self._flow.name),
            group=self._group,
            source_state=state.value,
            target_state=there.value,
            rows=self._rows(commits, {place.lane: place for place in places[self._group]}, stored, skips),
        )

    async def _look_back(self, *, apply: bool) -> Translated:
        """Return the group's offsets by its last checkpoints; with `apply`, commit them."""
        flow = self._flow
        await self._log.read_stamped()
        written = self._log.written.get(self._group)
        if not written:
            topic = flow.naming.checkpoints_topic(flow.name.source)
            raise NoCheckpoint(self._group, topic, flow.name.target, self.gone)
        positions = await last_known_of(flow, self._cluster)
        places, others = checkpointed(written, positions, await log_spans(self._cluster, written))
        if apply:
            self._commits.remember({self._group: written})  # checkpoints were committed: only those may be moved back
            await self._commit(places)
        stored = await self._ask(self._target.offsets([self._group]))
        there = await self._ask(self._target.states([self._group]))
        found = {place.target: msgspec.structs.replace(_row(place, stored), exact=False) for place in places} | others
        stamps = self._log.stamps
        return Translated(
            flow=str(flow.name),
            group=self._group,
            source_state="unknown",
            target_state=there.value,
            rows=tuple(
                msgspec.structs.replace(row, as_of_ms=stamps.get((self._group, where), -1))
                for where, row in found.items()
            ),
            source=self.gone,
        )

    async def _commit(self, places: Sequence[TranslatedOffset]) -> None:
        failed = await self._commits.commit({self._group: places})
        if failed:
            raise GroupFailed(self._group, failed[self._group])

    async def _ask(self, asked: Coroutine[Any, Any, Answers[T]]) -> T:
        answers = await asked
        if self._group in answers.failed:
            raise GroupFailed(self._group, answers.failed[self._group])
        return answers.found[self._group]

    def _rows(
        self,
        commits: Offsets,
        places: dict[TopicPartition, TranslatedOffset],
        stored: Offsets,
        skips: Collection[TopicPartition],
    ) -> tuple[TranslationRow, ...]:
        rows, unread = list[TranslationRow](), self._translations.without_stints
        for lane, (offset, _) in sorted(commits.items()):
            place = places.get(lane)
            if place is None:
                why = self._flow.selection.why_not(lane.topic) or ""
                row = TranslationRow(
                    topic=lane.topic, partition=lane.partition, source_offset=offset, why_not=why, mirrored=False
                )
            else:
                row = _row(place._replace(how=with_reason(place.how, unread)), stored, skips=lane in skips)
            rows.append(row)
        return tuple(rows)


def checkpointed(
    written: Mapping[TopicPartition, WrittenCheckpoint],
    known: LastKnown,
    spans: Mapping[TopicPartition, tuple[int, int]],
) -> tuple[list[TranslatedOffset], dict[TopicPartition, TranslationRow]]:
    """Return the offsets of a group by its checkpoints, and a row for each partition that the flow does not copy.

    An offset outside the target's log (`spans`: its start and end) is moved into it. If positions could not be read,
    the source partition of some copies is not known: their rows have no answer.
    """
    lanes = {one.target: one.lane for one in known.lanes}
    why, unread = "the flow copies nothing to this topic of the target", next(iter(known.unread.items()), None)
    if unread is not None:
        why = f"its source partition is not known, because {unread[0]} cannot be read: {unread[1]}"
    places: list[TranslatedOffset] = []
    others: dict[TopicPartition, TranslationRow] = {}
    for where, one in sorted(written.items()):
        if where in lanes:
            at = one.within(spans.get(where)).target
            how = CHECKPOINT if at == one.target else f"{CHECKPOINT} ({one.target}), moved into the target's log"
            places.append(TranslatedOffset(lanes[where], where, one.source, at, how, one.metadata))
        else:
            others[where] = TranslationRow(
                topic=where.topic,
                partition=where.partition,
                source_offset=one.source,
                why_not=why,
                mirrored=unread is not None,
            )
    return places, others


def _row(place: TranslatedOffset, stored: Offsets, *, skips: bool = False) -> TranslationRow:
    found = place.offset >= 0
    return TranslationRow(
        topic=place.lane.topic,
        partition=place.lane.partition,
        source_offset=place.source_offset,
        target_topic=place.target.topic,
        target_offset=place.offset,
        how=place.how if found else "",
        why_not="" if found else place.how,
        stored=stored[place.target][0] if place.target in stored else -1,
        exact=place.exact,
        skips=skips,
    )
