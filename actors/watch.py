"""What the metadata actor looks after: the keepers of each flow, and how they are made in the actor's own process."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from actors.memory import EventKeeperLike, StateKeeperLike
from actors.messages import MirrorSpec
from engine.core.config_report import ConfigReport
from engine.core.events import AnyEvent
from engine.core.group_report import GroupsReport
from engine.flow.audit import AuditRow
from engine.settings import FlowConfig
from policies.model import FlowName, LaneName

R_co = TypeVar("R_co", covariant=True)


class DiscoveryLike(Protocol):
    """What the shell reads of `engine.runner.Discovery`."""

    @property
    def lanes(self) -> tuple[LaneName, ...]: ...
    @property
    def events(self) -> tuple[AnyEvent, ...]: ...
    @property
    def highest_epoch(self) -> int: ...


class Keeper(Protocol):
    """What the shell needs of `engine.runner.TopicKeeper`."""

    may_delete: Callable[[], bool]

    async def open(self) -> None: ...
    async def step(self) -> DiscoveryLike: ...
    def forget_epochs(self) -> None: ...
    async def close(self) -> None: ...


class RoundsKeeper(Protocol[R_co]):
    """What the shell needs of an `engine.keeper.Keeper`."""

    may_write: Callable[[], bool]

    @property
    def report(self) -> R_co: ...
    def take_events(self) -> tuple[AnyEvent, ...]: ...
    async def run(self) -> None: ...
    async def close(self) -> None: ...


class Runs(Protocol):
    """A keeper that works until it is cancelled."""

    async def run(self) -> None: ...


class AuditLike(Protocol):
    """What the shell needs of an `engine.flow.audit.AuditTrail`."""

    who: str

    def add(self, rows: Sequence[AuditRow]) -> None: ...
    def take_events(self) -> tuple[AnyEvent, ...]: ...
    async def run(self) -> None: ...
    async def flush(self) -> None: ...


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """One flow to look after: its keepers, and the seconds between two rounds of discovery.

    `state` makes a keeper anew for each try, since one may be opened once; `beats` one that tells its events. `groups`
    is None where no groups are mirrored, `configs` where neither configs nor ACLs are kept in step. `audit`: the trail
    of what is changed on the target.
    """

    flow: FlowName
    keeper: Keeper
    state: Callable[[], StateKeeperLike]
    events: EventKeeperLike
    every_s: float
    groups: RoundsKeeper[GroupsReport] | None = None
    configs: RoundsKeeper[ConfigReport] | None = None
    beats: Callable[[Callable[[AnyEvent], None]], Runs] | None = None
    audit: AuditLike | None = None
    late: bool = False
    """Whether the start could not check the flow: nothing is kept in step before its clusters are reached."""
    settings: dict[str, str] = {}
    """What it is made of, as digests by name: one that is made of the same need not be made again."""


def make_watches(spec: MirrorSpec) -> tuple[Watch, ...]:
    """Read the configuration in this actor's own process and make the keepers of each flow."""
    import socket
    from functools import partial

    from actors import config_ref
    from actors.effective import settings_of
    from actors.events import KINDS
    from engine.config_keeper import ConfigKeeper
    from engine.event_keeper import EventKeeper
    from engine.flow.audit import AuditTrail
    from engine.group_keeper import GroupKeeper
    from engine.heartbeat_keeper import HeartbeatKeeper
    from engine.jobs.audit_store import audit_store
    from engine.late_checks import LateChecks
    from engine.runner import TopicKeeper
    from engine.state import Deployment, Holder
    from engine.state_keeper import StateKeeper

    config = config_ref.load(spec.config)
    holder = Holder(
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
    store = audit_store(config)
    who = f"mirror {spec.namespace} on {holder.where}"

    def watch(flow: FlowConfig) -> Watch:
        audit = AuditTrail(flow.name, who, store)
        return Watch(
            flow=flow.name,
            keeper=TopicKeeper(config, flow, checks.admit),
            state=partial(StateKeeper, config, flow, holder, known_dead),
            events=EventKeeper(config, flow, KINDS),
            every_s=flow.refresh_topics_s,
            beats=partial(HeartbeatKeeper, config, flow),
            groups=GroupKeeper(config, flow),
            configs=ConfigKeeper(config, flow, audit=audit),
            audit=audit,
            late=flow.name in unchecked,
            settings=settings_of(config, flow),
        )

    return tuple(watch(flow) for flow in config.flows)
