"""The services of each flow that the metadata actor runs; creates them in the actor's process."""

from collections.abc import Callable, Collection, Sequence
from math import inf
from typing import Protocol, TypeVar

import msgspec

from actors.model.messages import AlteredOffset, MirrorSpec, StoredOffset
from actors.ray.durable_flow_state import EventServiceLike, StateServiceLike
from engine.base.errors import MirrorError
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.events.events import AnyEvent
from engine.core.reports.config_report import ConfigReport
from engine.core.reports.drill_report import DrillStanding
from engine.core.reports.group_report import GroupsReport
from engine.flow.config_sync.audit import AuditRow
from policies.model import FlowName, LaneName, TopicPartition

R_co = TypeVar("R_co", covariant=True)


class DiscoveryLike(Protocol):
    """The part of `engine.flow.ports.discovery.Discovery` that the metadata actor reads."""

    @property
    def lanes(self) -> tuple[LaneName, ...]: ...
    @property
    def events(self) -> tuple[AnyEvent, ...]: ...
    @property
    def highest_epoch(self) -> int: ...
    @property
    def target_id(self) -> str: ...


class TopicServiceLike(Protocol):
    """The part of `engine.services.topic_service.TopicService` that the metadata actor uses."""

    may_delete: Callable[[], bool]
    moved: Callable[[], Collection[str]]

    async def open(self) -> None: ...
    async def step(self) -> DiscoveryLike: ...
    def forget_epochs(self) -> None: ...
    async def close(self) -> None: ...


class LoopServiceLike(Protocol[R_co]):
    """The part of an `engine.services.loop_service.LoopService` that the metadata actor uses."""

    may_write: Callable[[], bool]

    @property
    def report(self) -> R_co: ...
    def take_events(self) -> tuple[AnyEvent, ...]: ...
    async def run(self) -> None: ...
    async def close(self) -> None: ...


class RoundDeskLike(Protocol):
    """The part of an `engine.flow.config_sync.round_desk.RoundDesk` that the metadata actor uses."""

    @property
    def wanted(self) -> str: ...
    def request(self, round_id: str) -> bytes | None: ...
    def answer(self, round_id: str, plan: bytes) -> bool: ...
    def refuse(self, round_id: str, why: str) -> bool: ...


class ConfigServiceLike(LoopServiceLike[ConfigReport], Protocol):
    """The part of an `engine.services.config_service.ConfigService` that the metadata actor uses."""

    moved: Callable[[], Collection[str]]

    @property
    def desk(self) -> RoundDeskLike | None: ...
    @property
    def memory(self) -> tuple[str, bytes]: ...
    def remember(self, memory: bytes) -> None: ...


class RunsUntilCancelled(Protocol):
    """A service that works until it is cancelled."""

    async def run(self) -> None: ...


class AuditLike(Protocol):
    """The part of an `engine.flow.config_sync.audit.AuditTrail` that the metadata actor uses."""

    who: str

    def add(self, rows: Sequence[AuditRow]) -> None: ...
    def take_events(self) -> tuple[AnyEvent, ...]: ...
    async def run(self) -> None: ...
    async def flush(self) -> None: ...


class HistoryLike(Protocol):
    """The part of an `engine.flow.config_history.keeper.ConfigHistory` that the metadata actor uses."""

    async def run(self) -> None: ...
    async def flush(self) -> None: ...


class DrillsLike(Protocol):
    """The part of an `actors.drills.schedule.DrillScheduler` that the metadata actor uses."""

    may_drill: Callable[[], bool]

    @property
    def standing(self) -> DrillStanding: ...
    async def run(self) -> None: ...


class PositionsLike(Protocol):
    """The methods of `FlowPositions` that are used."""

    async def read(self) -> tuple[StoredOffset, ...]: ...
    async def alter(self, wanted: tuple[AlteredOffset, ...] | None) -> None: ...


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """The services of one flow; `every_s`: seconds between two rounds of discovery, `inf` for none once all is found.

    `state` creates a new service for each try, since a service can be opened only once. `beats` creates the heartbeat
    service. `groups` is None if no groups are mirrored, `configs` if neither configs nor ACLs are synced. `audit`: the
    trail of changes on the target. `history`: that of configs; its events come with those of `configs`.
    `drills` runs drills by a schedule.
    """

    flow: FlowName
    service: TopicServiceLike
    state: Callable[[], StateServiceLike]
    events: EventServiceLike
    every_s: float
    groups: LoopServiceLike[GroupsReport] | None = None
    configs: ConfigServiceLike | None = None
    beats: Callable[[Callable[[AnyEvent], None]], RunsUntilCancelled] | None = None
    audit: AuditLike | None = None
    history: HistoryLike | None = None
    positions: PositionsLike | None = None
    drills: DrillsLike | None = None
    late: bool = False
    """Whether the start could not check the flow: nothing is synced before its clusters are reached."""
    settings: dict[str, str] = {}
    """Digests of the settings that its services use, by name: with the same digests they need not be created again."""


class PositionsUnread(MirrorError):
    """Some positions of a flow could not be read, so it is not known how far all of its partitions are copied."""

    exit_code = 1  # it may succeed in a moment

    def __init__(self, flow: str, unread: dict[str, str]) -> None:
        super().__init__(flow, unread)
        self.flow, self.unread = flow, unread

    def __str__(self) -> str:
        parts = "; ".join(f"{partition}: {why}" for partition, why in self.unread.items())
        return f"the positions of flow {self.flow} cannot be read now: {parts}; try again"


class FlowPositions:
    """The positions of one flow on its target; each call has a connection of its own.

    Raises BrokerUnreachable, ConnectionLost, OtherCluster, KafkaRefusal.
    """

    def __init__(self, config: MirrorConfig, flow: FlowConfig) -> None:
        self._config, self._flow = config, flow

    async def read(self) -> tuple[StoredOffset, ...]:
        """Read how far each partition is copied. Raises PositionsUnread."""
        from engine.services.target_view import TargetView

        async with TargetView(self._config, self._flow) as view:
            found = await view.positions()
        if found.unread:
            raise PositionsUnread(str(self._flow.name), found.unread)
        return tuple(
            StoredOffset(topic=one.lane.topic, partition=one.lane.partition, source_next=one.source_next)
            for one in found.lanes
            if one.source_next >= 0
        )

    async def alter(self, wanted: tuple[AlteredOffset, ...] | None) -> None:
        """Set positions; None: remove all. Raises PositionsNotAltered."""
        from engine.services.position_alteration import PositionAlteration

        lanes = None if wanted is None else {TopicPartition(one.topic, one.partition): one.offset for one in wanted}
        async with PositionAlteration(self._config, self._flow) as altering:
            await altering.alter(lanes)


def make_watches(spec: MirrorSpec) -> tuple[Watch, ...]:
    """Read the configuration in this actor's own process and create the services of each flow."""
    import socket
    from functools import partial

    from actors.config import config_ref
    from actors.config.effective import settings_of
    from actors.drills.process import DrillOrder, drill_apart
    from actors.drills.schedule import DrillScheduler
    from actors.model.events import KINDS
    from engine.checks.late_checks import LateChecks
    from engine.flow.config_history.keeper import ConfigHistory
    from engine.flow.config_sync.audit import AuditTrail
    from engine.jobs.audit.store import audit_store
    from engine.jobs.config_history.store import history_store
    from engine.services.config_service import ConfigService, history_flow
    from engine.services.drill.reader import DrillReader
    from engine.services.event_service import EventService
    from engine.services.group_service import GroupService
    from engine.services.heartbeat_service import HeartbeatService
    from engine.services.state_service import StateService
    from engine.services.topic_service import TopicService
    from engine.state.state import Deployment, StateHolder

    config = config_ref.load(spec.config)
    holder = StateHolder(
        deployment_id=spec.deployment_id,
        instance_id=spec.instance_id,
        mirror=spec.namespace,
        version=spec.version,
        where=socket.gethostname(),
    )

    def known_dead(owner: Deployment) -> bool:
        return bool(spec.dead_instance) and owner.instance_id == spec.dead_instance

    unchecked = frozenset(flow.name for flow in config.flows if str(flow.name) in spec.unchecked)
    checks = LateChecks(config, unchecked)
    store, tables = audit_store(config), history_store(config)
    who = f"mirror {spec.namespace} on {holder.where}"

    def watch(flow: FlowConfig) -> Watch:
        audit = AuditTrail(flow.name, who, store)
        kept = tables if flow.config_sync.history else None
        history = ConfigHistory(history_flow(flow), kept) if kept is not None else None
        return Watch(
            flow=flow.name,
            service=TopicService(config, flow, checks.admit),
            state=partial(StateService, config, flow, holder, known_dead),
            events=EventService(config, flow, KINDS),
            every_s=flow.refresh_topics_s if flow.refresh_topics else inf,
            beats=partial(HeartbeatService, config, flow),
            groups=GroupService(config, flow),
            configs=ConfigService(config, flow, audit=audit, history=history),
            audit=audit,
            history=history,
            positions=FlowPositions(config, flow),
            drills=DrillScheduler(
                str(flow.name),
                flow.drills,
                partial(DrillReader, config, flow),
                partial(drill_apart, DrillOrder(flow=str(flow.name), config=spec.config)),
            ),
            late=flow.name in unchecked,
            settings=settings_of(config, flow),
        )

    return tuple(watch(flow) for flow in config.flows)
