"""Rehearses a whole failover on the live mirror: `DrillService`. No producer and no consumer notices it.

clean -> record -> drain (only measured) -> groups -> consumers -> compare -> producers -> readiness -> take away
            |                                                                                              |
            +------ the record stays on the target until all that was made is gone, also after a kill -----+
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event
from typing import Any
from uuid import uuid4

import msgspec

from engine.base.clock import now_s, pause, wall_ms
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal, MirrorError
from engine.base.tasks import first_cause, in_thread
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.reports.drill_report import (
    UNKNOWN_LOSS,
    DrillLoss,
    DrillReport,
    DrillStep,
    DrillStepTime,
    sorted_findings,
)
from engine.flow.surveys.dr_preview import losses_of
from engine.flow.surveys.readiness_survey import survey_readiness
from engine.flow.topic_logs.drill_log import DrillLog
from engine.flow.topic_logs.last_known import LastKnown, NothingKnown
from engine.kafka.admin.admin import broker_configs
from engine.kafka.admin.client_quotas import client_quotas
from engine.kafka.admin.internal_topics import STATE_CONFIGS, ensure_internal_topic
from engine.kafka.groups.stock_consumer import Reads, read_first
from engine.services.dr.preview import PreviewService
from engine.services.drill.connection import stock_connection
from engine.services.drill.groups import GroupRehearsal, Places, RehearsedGroups
from engine.services.drill.made import Made
from engine.services.drill.producers import (
    SETTINGS,
    ProducerRehearsal,
    refusing_partitions,
    replicas_of_strictest,
    strictest,
)
from engine.services.drill.reading import ReadComparison, consumer_plans, read_by_own, sampled
from engine.services.drill.record import DrillRecord
from engine.services.maps import last_known_of
from engine.state.state import state_topic
from policies.dr.drill import DrillFinding, DrillFindingName, not_judged, smaller_quotas
from policies.dr.readiness import ClientRules, UnreadyName
from policies.model import TopicPartition
from policies.sync.config_sync import TopicState
from policies.sync.topic_configs import ConfigEntry

CLIENT_ID = "raymirror-drill"
READ_WITHIN_S = 30.0
"""So long one consumer may take, from its start to its last first record."""
TRANSLATE_WITHIN_S = 20.0
"""So long the copy may take to reach the commits of the groups, after the drain."""
_DRAIN_LOOK_S, _POSITIONS_S = 0.25, 5.0
_POLICY = "cleanup.policy"
_AUTO_CREATE = "auto.create.topics.enable"


class DrillWish(msgspec.Struct, frozen=True, kw_only=True):
    """What to rehearse. `chosen`: whether a group takes part; `sample`: groups that are read by a consumer, 0: all."""

    chosen: Callable[[str], bool] = lambda _group: True
    sample: int = 0
    drain_s: float = 120.0
    scheduled: bool = False
    at_step: Callable[[DrillStep], None] = lambda _step: None
    """Called when a step begins."""


class _Course:
    """What is known of a drill so far."""

    def __init__(self, wish: DrillWish) -> None:
        self.wish = wish
        self.steps: list[DrillStepTime] = []
        self.findings: list[DrillFinding] = []
        self.loss = UNKNOWN_LOSS
        self.partitions = self.groups = self.consumers = 0
        self.failed = ""

    @contextmanager
    def step(self, step: DrillStep) -> Iterator[None]:
        """Measure the block; a step that fails is no finished step."""
        self.wish.at_step(step)
        began_s = now_s()
        yield
        self.steps.append(DrillStepTime(step, now_s() - began_s))


class DrillService(PreviewService):
    """Drills of one flow, over connections of its own, as an async context. Raises what `Failover` raises."""

    def __init__(self, config: MirrorConfig, flow: FlowConfig) -> None:
        super().__init__(config, flow)
        self._drills = DrillLog(self._target, flow.name, flow.request_timeout_s)
        self._made = Made(self._clients[1], self._target_groups)

    async def _close(self) -> None:
        await self._drills.close()
        await super()._close()

    def _record(self, run_id: str = "") -> DrillRecord:
        return DrillRecord(str(self._flow.name), run_id, self._drills, self._made)

    async def clean(self) -> dict[str, tuple[str, ...]]:
        """Take away what killed drills have left; return their run ids, each with what is still there.

        Raises DrillRuns, ConnectionLost, BrokerUnreachable, KafkaRefusal.
        """
        return await self._record().clean() if await self._drills.exists() else {}

    async def drill(self, wish: DrillWish) -> DrillReport:
        """Rehearse a failover, take everything away, store the report and return it.

        A failure on the way is in the report. Raises NothingKnown if no mirror ever had the flow; DrillRuns,
        OperationRuns; what brokers cause if the drill cannot even be recorded, or its report cannot be stored.
        """
        await self._need_state()
        run_id, course, left = uuid4().hex[:12], _Course(wish), tuple[str, ...]()
        record = self._record(run_id)
        with course.step(DrillStep.CLEAN):
            for old in (await record.clean()).values():
                left += old
        await record.begin()
        try:
            await self._beating(record, self._rehearse(run_id, course))
        except MirrorError as failure:
            course.failed = str(failure)
        finally:
            with course.step(DrillStep.TAKE_AWAY):
                left += await record.take_away(run_id)
        findings = sorted_findings(course.findings)
        report = DrillReport(
            run_id=run_id,
            flow=str(self._flow.name),
            began_ms=record.began_ms,
            ended_ms=wall_ms(),
            scheduled=wish.scheduled,
            steps=tuple(course.steps),
            loss=course.loss,
            partitions=course.partitions,
            groups=course.groups,
            consumers=course.consumers,
            hurts=sum(one.hurts for one in findings),
            findings=findings,
            left=left,
            failed=course.failed,
        )
        await record.store(report)
        return report

    async def _need_state(self) -> None:
        """Create the state topic if the flow was copied without one. Raises NothingKnown, KafkaRefusal."""
        if await self._drills.exists():
            return
        name = self._flow.name
        if not (await last_known_of(self._flow, self._target)).lanes:
            raise NothingKnown(str(name), self._flow.positions_topic, name.target)
        replicas = self._flow.positions_replication_factor
        await ensure_internal_topic(self._clients[1], state_topic(name.source), replicas, STATE_CONFIGS)

    async def _beating(self, record: DrillRecord, work: Coroutine[Any, Any, None]) -> None:
        """Do the work while the record beats. Raises the first failure of either."""
        try:
            async with asyncio.TaskGroup() as group:
                beating = group.create_task(record.beat())
                await work
                beating.cancel()
        except BaseExceptionGroup as failures:
            raise first_cause(failures) from None

    async def _rehearse(self, run_id: str, course: _Course) -> None:
        if self.gone:
            raise BrokerUnreachable(f"cluster {self._flow.name.source!r}", self.gone)
        topics = await self._topics()
        with course.step(DrillStep.SURVEY):
            course.loss = await self._loss(topics)
        with course.step(DrillStep.DRAIN):
            await self._drain(course)
        rehearsal = GroupRehearsal(
            self._flow.groups.selection.without((await self.moved()).gone),
            self._source_groups,
            self._target_groups,
            self._translations(),
            course.wish.chosen,
        )
        with course.step(DrillStep.GROUPS):
            places = await self._move(run_id, rehearsal, course)
        read = sampled(places, course.wish.sample, run_id)
        with course.step(DrillStep.CONSUMERS):
            reads = await self._consume(run_id, read, course)
        with course.step(DrillStep.COMPARE):
            await self._compare(run_id, topics, read, reads, course)
            await self._log.read_stamped()
            course.findings += await rehearsal.checkpoints(self._log.written, places, self._target)
        await self._producers(run_id, topics, course)

    async def _loss(self, topics: dict[str, TopicState]) -> DrillLoss:
        """Sum up what a failover would lose if the source were gone at this moment."""
        known = await last_known_of(self._flow, self._target)
        losses = losses_of(await self._surveyed(known, topics), wall_ms())
        times = [one.seconds for one in losses if one.records]
        return DrillLoss(
            records=sum(one.records for one in losses),
            bytes=sum(one.bytes for one in losses),
            seconds=-1.0 if -1.0 in times else max(times, default=0.0),
            unknown=sum(one.unknown for one in losses),
        )

    # --- drain -----------------------------------------------------------------------------------------------

    async def _drain(self, course: _Course) -> None:
        """Wait until every copy has passed the source's end at the beginning; nothing is paused for it."""
        ends = (await self.ends(())).without(self._flow.naming.is_heartbeats_topic)
        if ends.gone:
            raise BrokerUnreachable(f"cluster {self._flow.name.source!r}", ends.gone)
        course.partitions = len(ends.ends)
        for lane, why in ends.unknown.items():
            why = f"the end of the source partition is not known: {why}"
            course.findings.append(_not_drained(lane, why))
        left, give_up_at_s, positions_at_s = dict(ends.ends), now_s() + course.wish.drain_s, 0.0
        while left:
            copied = await self._copied(left)
            if now_s() >= positions_at_s:  # they are written less often than heads, and say more of idle partitions
                copied |= _further(copied, await self.stored())
                positions_at_s = now_s() + _POSITIONS_S
            left = {lane: end for lane, end in left.items() if copied.get(lane, -1) < end}
            if left and now_s() >= give_up_at_s:
                course.findings += await self._undrained(left, copied)
                return
            if left:
                await pause(_DRAIN_LOOK_S)

    async def _copied(self, lanes: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return up to which source offset each partition is copied, by the newest head of its map."""
        await self._maps.follow()
        heads = {lane: self._maps.head(lane) for lane in lanes}
        return {lane: head.source_next for lane, head in heads.items() if head is not None}

    async def _undrained(
        self, left: Mapping[TopicPartition, int], copied: Mapping[TopicPartition, int]
    ) -> list[DrillFinding]:
        try:
            stable = await self._source.stable_ends(list(left))
        except (BrokerUnreachable, ConnectionLost, KafkaRefusal):
            stable = {}
        found: list[DrillFinding] = []
        for lane, end in sorted(left.items()):
            at, open_at = copied.get(lane, -1), stable.get(lane, end)
            why = f"copied up to {at}" if at >= 0 else "nothing is known of its copy"
            if open_at < end:
                why = f"{why}; a transaction is open from {open_at}"
            found.append(_not_drained(lane, f"{why}, and the source ended at {end} when the drill began"))
        return found

    # --- groups and consumers --------------------------------------------------------------------------------

    async def _move(self, run_id: str, rehearsal: GroupRehearsal, course: _Course) -> Places:
        found: RehearsedGroups = await rehearsal.translate(TRANSLATE_WITHIN_S)
        course.findings += found.findings
        course.findings += [
            DrillFinding(name=DrillFindingName.GROUP_FAILED, subject=who, why=why)
            for who, why in self._source_groups.missing.items()
        ]
        places = found.movable
        course.groups = len(places)
        course.findings += await rehearsal.commit(run_id, places)
        return places

    async def _consume(self, run_id: str, places: Places, course: _Course) -> Reads:
        course.consumers = len(places)
        if not places:
            return {}
        cluster = self._config.clusters[self._flow.name.target].for_client(self._flow.target_client.login)
        connection = await asyncio.to_thread(stock_connection, cluster, CLIENT_ID)
        if isinstance(connection, str):
            course.findings.append(not_judged("consumers", f"{connection}: raymirror's own reader has read instead"))
            return await read_by_own(self._target, run_id, places)
        stop, plans = Event(), consumer_plans(run_id, places)
        try:
            return await in_thread(lambda: read_first(plans, connection, READ_WITHIN_S, stop), lambda: None)
        finally:
            stop.set()

    async def _compare(
        self, run_id: str, topics: dict[str, TopicState], places: Places, reads: Reads, course: _Course
    ) -> None:
        asked = dict.fromkeys(topics, (_POLICY,))
        copies = {self._flow.selection.target_topic(topic): topic for topic in topics}
        here = (await self._here.configs(asked)).found
        there = (await self._there.configs(dict.fromkeys(copies, (_POLICY,)))).found
        compacted = {topic for topic, configs in here.items() if _is_compacted(configs)}
        compacted |= {copies[copy] for copy, configs in there.items() if _is_compacted(configs)}
        comparison = ReadComparison(self._source, self._target, frozenset(compacted))
        course.findings += await comparison.compare(run_id, places, reads)

    # --- producers -------------------------------------------------------------------------------------------

    async def _producers(self, run_id: str, topics: dict[str, TopicState], course: _Course) -> None:
        flow = self._flow
        names = {*map(flow.selection.target_topic, topics), *topics}
        written = await self._there.topics(sorted(names))
        configs = (await self._there.configs(dict.fromkeys(written, SETTINGS))).found
        with course.step(DrillStep.PRODUCERS):
            rehearsal = ProducerRehearsal(run_id, self._target, self._made, flow.request_timeout_s)
            replicas = replicas_of_strictest(flow.replication_factor, written, configs)
            course.findings += await rehearsal.produce(replicas, strictest(configs.values()))
        with course.step(DrillStep.READINESS):
            course.findings += await refusing_partitions(self._clients[1], written, configs)
            course.findings += await self._readiness(topics)
            quotas = [await client_quotas(client) for client in self._clients]
            course.findings += smaller_quotas(*quotas)

    async def _readiness(self, topics: dict[str, TopicState]) -> list[DrillFinding]:
        selection = self._flow.selection
        rules = ClientRules(selection=selection, groups=self._flow.groups.selection, copied=frozenset(topics))
        found = await survey_readiness(self._here, self._opened, topics, rules)
        told = (await broker_configs(self._clients[1], [_AUTO_CREATE])).values()
        creates = bool(told) and all(configs.get(_AUTO_CREATE) == "true" for configs in told)
        findings = [not_judged("what applications would miss", why) for why in found.unknown]
        for one in found.unready:
            hurts = one.name is not UnreadyName.NO_TOPIC or not creates
            why = f"{one.name.value}: {one.why}"
            findings.append(DrillFinding(name=DrillFindingName.UNREADY, subject=one.subject, why=why, hurts=hurts))
        return findings


def _not_drained(lane: TopicPartition, why: str) -> DrillFinding:
    return DrillFinding(name=DrillFindingName.NOT_DRAINED, subject=str(lane), why=why)


def _further(copied: dict[TopicPartition, int], known: LastKnown) -> dict[TopicPartition, int]:
    return {one.lane: one.source_next for one in known.lanes if one.source_next > copied.get(one.lane, -1)}


def _is_compacted(configs: Mapping[str, ConfigEntry]) -> bool:
    entry = configs.get(_POLICY)
    return entry is not None and "compact" in entry.value.split(",")
