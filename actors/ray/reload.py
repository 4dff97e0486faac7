"""Applies a changed configuration to a running mirror: the checks, and the new specification of the mirror.

    compare -> refuse, or store the new specification (one put: the new one counts from here) -> every part follows it

The mirror is not stopped. Each part compares its settings with the new ones, and changes only what differs: copiers
by their fingerprint, the metadata actor's services by their settings.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import ray

from actors.config import config_ref
from actors.config.difference import ADDED, CHANGED, REMOVED, ConfigDifference, ConfigSide
from actors.config.reload_errors import CannotReload
from actors.control.flow_state import FlowPlan
from actors.local import session
from actors.model.events import Reloaded
from actors.model.fingerprint import fingerprint_of
from actors.model.messages import ConfigRef, MirrorSpec
from actors.model.needs import least_cpus
from engine.config.settings import MirrorConfig
from policies.model import FlowName
from policies.placement.scaling import ScalingLimits


def read_side(ref: ConfigRef) -> ConfigSide:
    """Read a configuration for a reload. Raises ConfigMissing, ConfigError, CannotReload if the file differs here."""
    if config_ref.is_edited(ref):
        why = f"{ref.path}: on the supervisor's machine, this file is not the one that was checked"
        raise CannotReload((f"{why}; put the same file there, then run raymirror reload again",))
    return ConfigSide(config_ref.load(ref), ref.kept, ref.digest)


def why_no_room(namespace: str, config: MirrorConfig) -> tuple[str, ...]:
    """Say that a configuration needs more than the mirror's own Ray has, which keeps the size of its start.

    Another Ray cluster may grow, or get another node. It asks Ray, so call it in a thread.
    """
    if not any(one.local for one in session.living(os.environ, namespace)):
        return ()
    asked: Any = ray  # its function has no types
    there, least = asked.cluster_resources().get("CPU", 0), least_cpus(config)
    if least <= there:
        return ()
    found = f"the mirror needs {least} logical CPUs with this flow, and its Ray was started with {there:g}"
    return (f"{found}: add it to the file, stop the mirror (raymirror stop), and start it again (raymirror run)",)


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
            is_added=str(flow.name) in spec.added_ms,
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
