"""Keeps a forwarder on each Ray node without the supervisor, in the supervisor's process.

A supervisor that ends unexpectedly leaves them: they answer 409 until the next one takes them over. A mirror that ends
ends them.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.calls import CALL_TIMEOUT_S, actor_class, bounded, found_actors, start_detached
from actors.control.ports import ActorUnreachable
from actors.control.site_nodes import NodesUnknown
from actors.forwarding.forwarder_actor import ForwarderActor, ForwarderSpec
from actors.logging.logs import log_sentence
from actors.model.messages import MirrorSpec
from engine.base.clock import now_s
from engine.base.tasks import first_cause
from engine.config.settings import HttpConfig

FORWARDER: Final = "forwarder"
LOOK_S: Final = 5.0
"""Seconds between two rounds: a new node listens after so long. A call costs both processes 4 ms of CPU."""
SILENT_S: Final = 30.0
"""Seconds without an answer after which a forwarder that is not known to have died is replaced."""

AGAIN_S: Final = 30.0
"""Seconds until a node gets another forwarder after one that could not start, for example without the mirror's file."""

Nodes = Sequence[Mapping[str, Any]]


def wanted_nodes(nodes: Nodes, own: str, address: str) -> dict[str, str]:
    """Return the address of each node that needs a forwarder, by its id: one for each address but the supervisor's."""
    by_id = sorted(nodes, key=lambda one: str(one["NodeID"]), reverse=True)  # so that the same one is found each time
    found = {str(one["NodeManagerAddress"]): str(one["NodeID"]) for one in by_id if one["Alive"]}
    return {node: at for at, node in found.items() if at != address and node != own}


class ForwarderHandle:
    """A forwarder that was started or taken over."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.answered_at_s = now_s()
        self.has_answered = False
        self.said = ""


class RayForwarders:
    """The forwarders of one mirror. `nodes` asks Ray for its nodes: it blocks, and raises NodesUnknown."""

    def __init__(self, spec: MirrorSpec, config: HttpConfig, nodes: Callable[[], Nodes]) -> None:
        self._spec, self._config, self._nodes = spec, config, nodes
        self._own = self._address = ""
        self._of: dict[str, ForwarderHandle] = {}
        """By node."""
        self._failed_at_s: dict[str, float] = {}
        """When a forwarder of a node ended before it had answered."""

    def reload(self, spec: MirrorSpec, config: HttpConfig) -> bool:
        """Use another configuration; return whether `run` must begin again for it."""
        before = self._config
        self._spec, self._config = spec, config
        is_same = (before.meaning, before.on_all_nodes) == (config.meaning, config.on_all_nodes)
        if not is_same:
            self.end()
        return not is_same

    async def run(self) -> None:
        """Keep them until cancelled; return at once if there are to be none."""
        if not ray.is_initialized():
            return
        self._own = str(ray.get_runtime_context().get_node_id())
        util: Any = ray.util  # without types
        self._address = str(util.get_node_ip_address())
        self._take_over()
        said = ""
        while self._is_on:
            try:
                await self._round()
            except Exception as error:  # noqa: BLE001 - Ray is away, or a bug: neither may end the supervisor
                cause = first_cause(error)
                text = f"forwarders of HTTP: {type(cause).__name__}: {cause}; trying again every {LOOK_S:g} s"
                if text != said:
                    log_sentence("warning", text)
                said = text
            await asyncio.sleep(LOOK_S)

    @property
    def _is_on(self) -> bool:
        return bool(self._config.port) and self._config.on_all_nodes

    def _take_over(self) -> None:
        """Take those of the supervisor before, if they have the same code and configuration; end all others."""
        known = {one.handle for one in self._of.values()}
        for name, handle in found_actors(self._spec.namespace):
            kind, _, node = name.rpartition("/")[0].rpartition("/")
            if not name.startswith(f"{FORWARDER}/") or handle in known:
                continue
            if self._is_on and kind == _mark_of(self._spec) and node not in self._of:
                self._of[node] = ForwarderHandle(handle)
            else:
                ray.kill(handle)

    async def _round(self) -> None:
        try:
            nodes = await asyncio.to_thread(self._nodes)
        except NodesUnknown as unknown:
            log_sentence("warning", str(unknown))
            return
        wanted = wanted_nodes(nodes, self._own, self._address)
        for node in self._of.keys() - wanted.keys():
            self._drop(node)
        for node in wanted.keys() - self._of.keys():
            if now_s() - self._failed_at_s.get(node, -AGAIN_S) >= AGAIN_S:
                self._of[node] = self._start(node, wanted[node])
        async with asyncio.TaskGroup() as group:
            for node, one in self._of.items():
                group.create_task(self._lead(node, one))

    def _start(self, node: str, address: str) -> ForwarderHandle:
        spec = ForwarderSpec(config=self._spec.config, namespace=self._spec.namespace, node=node, address=address)
        handle = start_detached(
            actor_class(ForwarderActor),
            spec,
            name=f"{_mark_of(self._spec)}/{node}/{now_s():.3f}",  # a killed actor's name is freed a moment later
            namespace=self._spec.namespace,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        )
        return ForwarderHandle(handle)

    async def _lead(self, node: str, one: ForwarderHandle) -> None:
        """Say to a forwarder where the supervisor's server is; drop one that has ended, so that another is started."""
        try:
            call = one.handle.follow.remote(self._address, self._config.port)
            said = str(await bounded(FORWARDER, "follow", call, CALL_TIMEOUT_S))
            one.answered_at_s, one.has_answered = now_s(), True
        except ActorUnreachable as unreachable:
            is_silent = unreachable.__cause__ is None
            if is_silent and now_s() - one.answered_at_s < SILENT_S:
                return  # its process may still be starting
            said = str(unreachable)
            self._drop(node)
            if not one.has_answered:
                self._failed_at_s[node] = now_s()
        if said and said != one.said:
            log_sentence("warning", f"HTTP on Ray node {node[:8]}: {said}")
        one.said = said

    def _drop(self, node: str) -> None:
        if (one := self._of.pop(node, None)) is not None:
            ray.kill(one.handle)

    def end(self) -> None:
        """End all: the mirror has ended, or others are to be started."""
        for node in tuple(self._of):
            self._drop(node)


def _mark_of(spec: MirrorSpec) -> str:
    return f"{FORWARDER}/{spec.version}/{spec.config.digest[:16]}/{spec.instance_id}"
