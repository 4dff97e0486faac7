"""The fleet on Ray: starts copiers and the supervisor, finds and ends copiers.

Every actor is detached and named, in the mirror's namespace. A copier has max_restarts=0: Ray needs 1.5 s to restart
one, while a parked call reports its death in 20 ms, and its sets need a new epoch anyway.
"""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import RayError

from actors.calls import actor_class, found_actors, start_detached
from actors.control.ports import CopierPort
from actors.control.site_nodes import NodesUnknown, SiteNodes
from actors.model.messages import CopierSpec, MirrorSpec
from actors.model.needs import CopierNeeds
from actors.ray.copier_actor import CopierActor
from actors.ray.ray_copier import RayCopier
from policies.model import FlowName
from policies.placement.sites import site_share

SUPERVISOR = "supervisor"
COPIER = "copier"
HEAD = {"node:__internal_head__": 0.001}


def start_supervisor(shell: type, spec: MirrorSpec) -> Any:
    """Start or get the one supervisor of a namespace; it runs on the head node."""
    return start_detached(
        actor_class(shell),
        spec,
        name=SUPERVISOR,
        namespace=spec.namespace,
        get_if_exists=True,
        resources=HEAD,
        max_restarts=-1,
    )


class RayFleet:
    """The copiers of one mirror. Runs inside the supervisor actor, on its loop.

    `changed` is set when a copier has answered for the first time, has news or has ended: then a step is due at once.
    `needs`: what the copiers of each flow request.
    """

    def __init__(
        self, spec: MirrorSpec, needs: Mapping[FlowName, CopierNeeds], group: asyncio.TaskGroup, changed: asyncio.Event
    ) -> None:
        self._spec, self._needs = spec, needs
        self._group, self._changed = group, changed
        self._watched: list[RayCopier] = []
        self._sites = SiteNodes(self._awaited_sites, list_nodes)

    def reload(self, spec: MirrorSpec, needs: Mapping[FlowName, CopierNeeds]) -> None:
        """Start new copiers with another configuration from now on; running ones continue."""
        self._spec, self._needs = spec, {**self._needs, **needs}

    def lacks(self, flow: FlowName) -> str:
        return self._sites.missing(self._needs[flow].site)

    async def run(self) -> None:
        """Find sites without a node while copiers wait for one; returns when cancelled."""
        await self._sites.run()

    def _awaited_sites(self) -> frozenset[str]:
        starting = {copier.flow for copier in self._watched if copier.vital().state == "starting"}
        return frozenset(self._needs[flow].site for flow in starting) - {""}

    def find_copiers(self) -> Sequence[CopierPort]:
        found = []
        for name, handle in found_actors(self._spec.namespace):
            kind, _, rest = name.partition("/")
            if kind == COPIER:
                source, target, _ = rest.split("/")
                found.append(self._watch(handle, FlowName(source, target), name))
        return found

    def start_copier(self, flow: FlowName, fingerprint: str) -> CopierPort:
        """Begin to start a copier actor on one CPU, with the memory that it requests, in the site where it must run."""
        copier_id = f"{COPIER}/{flow.source}/{flow.target}/{uuid.uuid4().hex[:8]}"
        spec = CopierSpec(
            config=self._spec.config,
            flow=flow,
            copier_id=copier_id,
            deployment_id=self._spec.deployment_id,
            namespace=self._spec.namespace,
            fingerprint=fingerprint,
        )
        handle = start_detached(
            actor_class(CopierActor, concurrency_groups={"control": 8}),
            spec,
            name=copier_id,
            namespace=self._spec.namespace,
            num_cpus=1,
            memory=self._needs[flow].memory_bytes or None,
            resources=site_share(self._needs[flow].site) or None,
        )
        return self._watch(handle, flow, copier_id)

    def _watch(self, handle: Any, flow: FlowName, copier_id: str) -> RayCopier:
        copier = RayCopier(handle, flow, copier_id, self._group, self._changed)
        self._watched.append(copier)
        return copier

    def retire(self, copier: CopierPort) -> None:
        """Kill the actor; killing a dead one is harmless."""
        if isinstance(copier, RayCopier):
            copier.end()
            self._watched.remove(copier)
            ray.kill(copier.handle)

    def leave(self) -> None:
        """Stop watching all copiers; living ones continue."""
        for copier in self._watched:
            copier.end()


def list_nodes() -> Sequence[Mapping[str, Any]]:
    """Ask Ray for its nodes. Blocks. Raises NodesUnknown: no error of Ray may end the supervisor."""
    untyped: Any = ray
    try:
        found: Sequence[Mapping[str, Any]] = untyped.nodes()
    except (RayError, RuntimeError, OSError) as error:
        raise NodesUnknown(f"{type(error).__name__}: {error}") from error
    return found
