"""Applies a changed configuration to a running mirror: the checks, and the new specification of the mirror.

    compare -> refuse, or store the new specification (one put: the new one counts from here) -> every part follows it

The mirror is not stopped. Each part compares its settings with the new ones, and changes only what differs: copiers
by their fingerprint, the metadata actor's services by their settings.
"""

from collections.abc import Iterable, Sequence

import msgspec

from actors.config import config_ref
from actors.config.difference import ADDED, CHANGED, REMOVED, ConfigDifference, ConfigSide
from actors.control.flow_state import FlowPlan
from actors.model.events import Reloaded
from actors.model.fingerprint import fingerprint_of
from actors.model.messages import ConfigRef, MirrorSpec
from engine.base.errors import MirrorError
from engine.config.settings import MirrorConfig
from policies.model import FlowName
from policies.placement.scaling import ScalingLimits


class CannotReload(MirrorError):
    """The new configuration changes settings that cannot change while the mirror runs; nothing was changed."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__(reasons)
        self.reasons = reasons

    def __str__(self) -> str:
        return "\n".join(["nothing was changed:", *(f"  {reason}" for reason in self.reasons)])


class ReloadBusy(MirrorError):
    """Another reload came first, or is not over yet."""

    exit_code = 1  # the same command may succeed in a moment

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"nothing was changed: {self.why}; run raymirror reload again"


class ReloadFailed(MirrorError):
    """The supervisor failed at or after the point of no return of a reload; it restarts."""

    exit_code = 1

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        return (
            f"the supervisor failed while it applied the file ({self.cause}) and restarts, with the whole old or the"
            " whole new configuration; to see which one: raymirror reload --dry-run"
        )


def read_side(ref: ConfigRef) -> ConfigSide:
    """Read a configuration for a reload. Raises ConfigMissing, ConfigError, CannotReload if the file differs here."""
    if config_ref.is_edited(ref):
        why = f"{ref.path}: on the supervisor's machine, this file is not the one that was checked"
        raise CannotReload((f"{why}; put the same file there, then run raymirror reload again",))
    return ConfigSide(config_ref.load(ref), ref.kept, ref.digest)


def successor(spec: MirrorSpec, ref: ConfigRef, added: Sequence[str], at_ms: int) -> MirrorSpec:
    """Return the specification after a reload: the same mirror with another configuration."""
    known = {flow: since_ms for flow, since_ms in spec.added_ms.items() if flow not in added}
    return msgspec.structs.replace(spec, config=ref, added_ms=known | dict.fromkeys(added, at_ms))


def flow_plans(spec: MirrorSpec, config: MirrorConfig) -> list[FlowPlan]:
    """Return the supervisor's settings of each flow."""
    return [
        FlowPlan(
            name=flow.name,
            scaling=ScalingLimits(
                minimum=flow.copiers,
                maximum=flow.most_copiers,
                target_drain_s=flow.target_drain_s,
                shrink_after_s=flow.shrink_after_s,
            ),
            fingerprint=fingerprint_of(spec.version, config, flow),
            started_ms=spec.added_ms.get(str(flow.name), spec.started_ms),
            site=flow.copiers_site,
            traffic=flow.traffic,
            resumable=bool(config.http.port),
        )
        for flow in config.flows
    ]


def reloaded(found: ConfigDifference, path: str, names: Iterable[FlowName]) -> list[Reloaded]:
    """Return an event for each flow that the reload changes."""
    by_name = {str(name): name for name in names}
    keys = {name: tuple(row.key for row in found.rows if row.flow == name and row.key) for name in by_name}
    return [
        Reloaded(flow=by_name[name], path=path, change=change, keys=keys[name])
        for change in (ADDED, CHANGED, REMOVED)
        for name in found.named(change)
        if name in by_name
    ]
