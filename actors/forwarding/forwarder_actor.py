"""The process of a forwarder on one Ray node. It has no state: the supervisor says where it is, every few seconds."""

import asyncio
import os
from collections.abc import Callable
from typing import Protocol

import msgspec

from actors.config import config_ref
from actors.logging.logs import log_sentence, setup_logging
from actors.model.messages import ConfigRef
from engine.base.clock import now_s, pause

ABANDONED_S = 300.0
"""Seconds without a supervisor after which it ends itself: nobody else would."""
LOOK_S = 5.0


class ForwarderSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a forwarder needs to start. `address`: that of its node."""

    config: ConfigRef
    namespace: str
    node: str
    address: str


class ForwarderLike(Protocol):
    """The part of `actors.forwarding.forwarder.Forwarder` that the actor uses."""

    trouble: str

    def follow(self, host: str, port: int) -> None: ...
    async def run(self) -> None: ...


def make_forwarder(spec: ForwarderSpec) -> ForwarderLike:
    """Read the configuration in the forwarder's own process, and make the forwarder of its node."""
    from actors.forwarding.forwarder import Forwarder  # imports aiohttp, which the supervisor may do without

    return Forwarder(config_ref.load(spec.config).http, spec.address)


class ForwarderActor:
    """Listens on its node from its start on; without a leader it answers 409."""

    def __init__(
        self,
        spec: bytes,
        make: Callable[[ForwarderSpec], ForwarderLike] = make_forwarder,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        self._spec = msgspec.msgpack.decode(spec, type=ForwarderSpec)
        self._logs = setup_logging(self._spec.namespace, f"forwarder-{self._spec.node[:8]}")
        self._forwarder = make(self._spec)
        self._led_at_s = now_s()
        self._end = end
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._forwarder.run())
            group.create_task(self._end_when_abandoned())

    async def follow(self, host: str, port: int) -> str:
        """Forward to the supervisor's server there; return why nothing listens here, empty if it does."""
        self._led_at_s = now_s()
        self._forwarder.follow(host, port)
        return self._forwarder.trouble

    async def _end_when_abandoned(self) -> None:
        while now_s() - self._led_at_s < ABANDONED_S:
            await pause(LOOK_S)
        log_sentence("warning", f"no supervisor has called for {ABANDONED_S:.0f} s: this forwarder ends itself")
        self._logs.close()
        self._end(0)
