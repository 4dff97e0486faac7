"""Builds the steps of a switchover from what the operator has chosen; a resume builds them from what is stored."""

from collections.abc import Iterable, Mapping
from typing import Self, TypeVar

import msgspec

from engine.base.errors import MirrorError
from engine.config.secrets import known_user
from engine.flow.operations.driver import Step
from engine.flow.operations.fencing import AclFence, Fence, FenceChoice
from engine.flow.operations.store import OperationStore
from engine.flow.ports.settings_port import NoAuthorizer
from engine.kafka.admin.authorizer import authorizer_settings
from engine.kafka.admin.settings import KafkaSettings
from engine.kafka.client.cluster import ClusterClient
from engine.services.dr.other_fences import COMMAND_KEY, CommandFence, NoFence
from engine.services.dr.switchover.flow_control import FlowControl
from engine.services.dr.switchover.reversal import PositionsStep, ReverseStep, WatchStep
from engine.services.dr.switchover.steps import (
    CheckStep,
    DrainStep,
    FenceStep,
    GroupsStep,
    PauseStep,
    SettleStep,
    SwitchoverLimits,
)
from engine.services.dr.switchover.world import ReverseConfig, SwitchoverWorld
from engine.state.state import StateHolder
from policies.dr.advice import FENCE
from policies.dr.fence import EveryoneRule
from policies.dr.operations import Fact
from policies.sync.acl_sync import Resource

_BETWEEN = ";"
"""Between principals, as in Kafka's `super.users`: the name of a certificate has blanks and commas."""


class SwitchoverChoices(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator has chosen; it is stored with the operation, as plain facts.

    `also_own`: principals of raymirror's other clients at the source, beside `own_principal`: none of them is fenced.
    `fence`: acl, command or none. `everyone`: yes, no, or unknown (`allow.everyone.if.no.acl.found`).
    """

    fence: str = "acl"
    principals: tuple[str, ...] = ()
    own_principal: str = ""
    also_own: tuple[str, ...] = ()
    everyone: str = EveryoneRule.UNKNOWN.value
    ignore: tuple[str, ...] = ()
    timeout_s: float = 300.0

    def accepting(self, names: Iterable[str]) -> Self:
        """Return the choices with more reasons that are accepted."""
        return msgspec.structs.replace(self, ignore=tuple(dict.fromkeys((*self.ignore, *names))))

    def facts(self) -> dict[str, Fact]:
        """Return the choices as an operation stores them."""
        return {
            "fence": self.fence,
            "principals": _BETWEEN.join(self.principals),
            "own_principal": self.own_principal,
            "also_own": _BETWEEN.join(self.also_own),
            "everyone": self.everyone,
            "ignore": " ".join(self.ignore),
            "timeout_s": self.timeout_s,
        }


Choices = TypeVar("Choices", bound=SwitchoverChoices)


def _split(text: Fact) -> tuple[str, ...]:
    return tuple(filter(None, str(text).split(_BETWEEN)))


def choices_of(facts: Mapping[str, Fact]) -> SwitchoverChoices:
    """Return the choices that an operation has stored."""
    return SwitchoverChoices(
        fence=str(facts["fence"]),
        principals=_split(facts["principals"]),
        own_principal=str(facts["own_principal"]),
        also_own=_split(facts.get("also_own", "")),
        everyone=str(facts["everyone"]),
        ignore=tuple(str(facts["ignore"]).split()),
        timeout_s=float(facts["timeout_s"]),
    )


class NoWayToFence(MirrorError):
    """The source has no authorizer, and no command is configured: cluster."""

    exit_code = 2

    def __init__(self, cluster: str) -> None:
        super().__init__(cluster)
        self.cluster = cluster

    def __str__(self) -> str:
        return (
            f"cluster {self.cluster!r} has no authorizer, so no ACL can keep producers out; set {COMMAND_KEY}, or stop"
            f" all producers yourself and say {FENCE.given('none')}"
        )


def writers_of(reverse: ReverseConfig) -> tuple[str, ...]:
    """Return the principals that the reverse flow has at the source; one that only brokers know is empty.

    Its producer may have another login than the client that makes the fence. Raises ConfigError.
    """
    flow = reverse.flow
    cluster = reverse.config.clusters[flow.name.target]
    users = {known_user(cluster.for_client(one.login)) for one in (flow.target_client, flow.target_admin)}
    return tuple(sorted(f"User:{user}" if user else "" for user in users))


async def settled_choices(choices: Choices, source: ClusterClient, command: str, reverse: ReverseConfig) -> Choices:
    """Complete what the operator has left open, by what the source says.

    Raises NoWayToFence, KafkaRefusal, BrokerUnreachable, ConnectionLost, ConfigError.
    """
    writers = writers_of(reverse)
    is_known = bool(source.grantee.user) and "" not in writers
    own = choices.own_principal or (f"User:{source.grantee.user}" if is_known else "")
    also = tuple(one for one in writers if one not in ("", own))
    found = msgspec.structs.replace(choices, own_principal=own, also_own=also)
    if choices.fence != "acl":
        return found
    try:
        await KafkaSettings(source).acls(Resource.TOPIC)
    except NoAuthorizer:
        if not command:
            raise NoWayToFence(source.alias) from None
        return msgspec.structs.replace(found, fence="command")
    if choices.everyone == EveryoneRule.UNKNOWN.value:
        told = await authorizer_settings(source)
        return msgspec.structs.replace(found, everyone=told.everyone.value)
    return found


def fence_of(choices: SwitchoverChoices, source: ClusterClient, command: str, flow: str) -> Fence:
    """Return the fence that was chosen."""
    if choices.fence == "command":
        return CommandFence(command, flow)
    if choices.fence == "none":
        return NoFence()
    choice = FenceChoice(
        own=choices.own_principal,
        also_own=choices.also_own,
        named=choices.principals,
        everyone=EveryoneRule(choices.everyone),
    )
    return AclFence(KafkaSettings(source), choice)


def switchover_steps(
    world: SwitchoverWorld,
    store: OperationStore,
    control: FlowControl,
    holder: StateHolder,
    fence: Fence,
    choices: SwitchoverChoices,
) -> dict[str, Step]:
    """Return the steps by their names in the table; `world` is connected if both clusters answer."""
    limits, ignored = SwitchoverLimits(drain_s=choices.timeout_s), frozenset(choices.ignore)
    drain, halt = DrainStep(world, control, limits, ignored), PauseStep(control)
    groups, positions = GroupsStep(world, limits, ignored), PositionsStep(world, holder)
    return {
        "check": CheckStep(world, fence, control, ignored),
        "fence": FenceStep(world, fence),
        "drain": drain,
        "pause": halt,
        "groups": groups,
        "positions": positions,
        "settle": SettleStep(world, halt, drain, (groups, positions)),
        "reverse": ReverseStep(world, store, control, holder),
        "watch": WatchStep(world, groups=True),
    }
