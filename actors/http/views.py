"""Asks the supervisor for what a route needs, and has it done what an answer asks for."""

import asyncio
import enum
import logging
import os
from typing import Any, Protocol, TypeVar

import msgspec

from actors.api.commands.look_words import words_of
from actors.api.runs import refuse_beside, running_of
from actors.api.series import SeriesRing
from actors.api.view import ApiFacts, ApiNeed, ApiView
from actors.config.config_ref import ConfigMissing
from actors.config.difference import ConfigDifference
from actors.config.reload_errors import CannotReload
from actors.http.command_looks import CommandLooks
from actors.http.command_runs import RunBook, runs_folder
from actors.local import session
from actors.model.messages import StoredOffset
from actors.model.requests import (
    AnyRequest,
    AskFilePlan,
    AskPositions,
    AskStatus,
    GiveCommand,
    RestartCopiers,
    RestartFlow,
)
from actors.model.states import Command
from actors.model.status import MirrorStatus, decode_status
from actors.rest.connectors import ConnectorKind, MirrorConnector
from actors.rest.entities import LoggerLevel
from actors.rest.exchange import Deed, EndCommand, HttpCall, SetLogLevel, StartCommand
from actors.rest.loggers import LOGGERS, NUMBERS, ROOT, level_named
from actors.rest.view import MirrorView, Need
from engine.base.clock import now_s, wall_ms
from engine.base.errors import ConfigError

_DEAR = (Need.LANES, Need.POSITIONS, Need.METRICS)
_MOST_DEAR = 2
"""Answers with all partitions that are made at one time."""
_OPEN = (Need.HEALTH, Need.READINESS)
"""The needs of routes that everybody may ask."""
_WITH_RUNS = (ApiNeed.RUNS, ApiNeed.OPEN_OPERATION)
"""The needs of routes that start commands, or show what became of them."""
_LANES_LAST_S = 1.0
_OPEN_LASTS_S = 1.0
"""Seconds for which they are answered without asking again, so that nobody can keep the supervisor busy with them."""


class TelemetryPages(Protocol):
    """What telemetry knows about the supervisor's process."""

    async def metrics(self) -> str:
        """Return the page of metrics."""

    def why_dead(self) -> str:
        """Return why the mirror is not alive; empty if it is."""

    def why_not_ready(self) -> str:
        """Return why the mirror is not ready; empty if it is."""


class MirrorFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration says about a mirror; it changes with a reload."""

    connectors: dict[str, MirrorConnector]
    version: str
    config_path: str
    host: str
    node: str
    api: ApiFacts = ApiFacts()


class SupervisorViews:
    """Views of the mirror. `supervisor` has the methods that requests name; `pages`: metrics and probes.

    `ring` has the series of the mirror; whoever makes statuses fills it.
    """

    def __init__(
        self,
        supervisor: Any,
        pages: TelemetryPages,
        facts: MirrorFacts,
        ring: SeriesRing | None = None,
        looks: CommandLooks | None = None,
        runs: RunBook | None = None,
    ) -> None:
        self._supervisor, self._pages, self._facts = supervisor, pages, facts
        self._ring = ring if ring is not None else SeriesRing()
        self._dear = asyncio.Semaphore(_MOST_DEAR)
        self._modified_ms: dict[str, int] = {}
        self._open: dict[Need, tuple[float, MirrorView]] = {}
        """The last view for each of _OPEN, and when it was made."""
        self._lanes = RecentLanes()
        self._looks = looks if looks is not None else CommandLooks()
        states = session.folder(os.environ)
        self._runs = runs if runs is not None else RunBook(runs_folder(states, facts.api.place.mirror))

    def reload(self, pages: TelemetryPages, facts: MirrorFacts) -> None:
        """Use other facts from now on."""
        self._pages, self._facts = pages, facts
        self._open.clear()

    @property
    def version(self) -> str:
        """raymirror's own."""
        return self._facts.version

    async def view(self, need: enum.Enum, call: HttpCall) -> MirrorView:
        """Return the mirror as it is now, with what a route needs. Raises what the supervisor raises."""
        if isinstance(need, ApiNeed):
            return await self._api_view(need, call)
        if not isinstance(need, Need):
            raise TypeError(f"a route needs {need!r}")  # a bug in the table of routes
        if need not in _OPEN:
            return await self._present(need, call)
        made_at_s, known = self._open.get(need, (0.0, None))
        if known is None or now_s() - made_at_s > _OPEN_LASTS_S:
            known = await self._present(need, call)
            self._open[need] = now_s(), known
        return known

    async def look(self) -> ApiView:
        """Return the mirror as it is now, without partitions, for the stream. Raises what the supervisor raises."""
        return await self._api_view(ApiNeed.STATUS, HttpCall())

    async def _api_view(self, need: ApiNeed, call: HttpCall) -> ApiView:
        lanes = need is ApiNeed.LANES or (need is ApiNeed.ASKED and call.flag("partitions"))
        status = await self._recent_lanes() if lanes else await self._status(lanes=False)
        view = _of_status(ApiView(**self._known(), facts=self._facts.api, ring=self._ring), status)
        if need is ApiNeed.FILE_PLAN:
            return msgspec.structs.replace(view, found=await self._file_plan())
        words = words_of(need, call, view)
        if words:
            view = msgspec.structs.replace(view, found=await self._looks.run(words, call.asked_from))
        if need in _WITH_RUNS:  # after the look, which takes seconds: a command may begin meanwhile
            runs = await asyncio.to_thread(self._runs.all, call.path.get("run", ""))
            view = msgspec.structs.replace(view, runs=runs)
        return view

    async def _file_plan(self) -> ConfigDifference | str:
        """Return what the file on disk would change, or why it cannot be read."""
        try:
            return msgspec.msgpack.decode(await self._ask(AskFilePlan()), type=ConfigDifference)
        except (ConfigError, ConfigMissing, CannotReload) as error:
            return str(error)

    def close(self) -> None:
        """End what is under way: nobody waits for it any more."""
        self._looks.close()

    async def _recent_lanes(self) -> MirrorStatus:
        """Return the status with all partitions; several pages that ask at one time share it."""
        async with self._lanes.lock:
            if (known := self._lanes.known(now_s())) is None:
                known = await self._status(lanes=True)
                self._lanes.note(known, now_s())
            return known

    def _known(self) -> dict[str, Any]:
        """Return what a view has without a question."""
        return {
            "connectors": self._facts.connectors,
            "version": self._facts.version,
            "config_path": self._facts.config_path,
            "host": self._facts.host,
            "node": self._facts.node,
            "loggers": {name: self._level(name) for name in LOGGERS},
            "why_dead": self._pages.why_dead(),
        }

    async def _present(self, need: Need, call: HttpCall) -> MirrorView:
        view = MirrorView(**self._known())
        if need in _DEAR:
            async with self._dear:
                return await self._filled(view, need, call)
        return await self._filled(view, need, call)

    async def _filled(self, view: MirrorView, need: Need, call: HttpCall) -> MirrorView:
        match need:
            case Need.HEALTH | Need.STATUS:
                return _of_status(view, await self._status(lanes=False))
            case Need.TASKS:
                status = await self._status(lanes=False)
                if any(flow.errors for flow in status.flows):
                    async with self._dear:
                        status = await self._status(lanes=True)
                return _of_status(view, status)
            case Need.LANES:
                return _of_status(view, await self._status(lanes=True))
            case Need.POSITIONS:
                present = _of_status(view, await self._status(lanes=False))
                return msgspec.structs.replace(present, positions=await self._positions(present, call))
            case Need.METRICS:
                return msgspec.structs.replace(view, metrics=await self._pages.metrics())
            case Need.READINESS:
                return msgspec.structs.replace(view, why_not_ready=self._pages.why_not_ready())
        return view

    async def _status(self, *, lanes: bool) -> MirrorStatus:
        data = await self._ask(AskStatus(lanes))
        return await asyncio.to_thread(decode_status, data) if lanes else decode_status(data)

    async def _positions(self, view: MirrorView, call: HttpCall) -> tuple[StoredOffset, ...]:
        connector = view.connectors.get(call.path.get("connector", ""))
        if connector is None or connector.kind is not ConnectorKind.SOURCE:
            return ()
        data = await self._ask(AskPositions(connector.flow))
        return await asyncio.to_thread(msgspec.msgpack.decode, data, type=tuple[StoredOffset, ...])

    async def _ask(self, request: AnyRequest) -> bytes:
        found: bytes | None = await getattr(self._supervisor, request.method)(*request.arguments)
        return found or b""

    async def do(self, deed: Deed) -> None:
        """Have something done. Raises what the supervisor raises; HttpRefusal (409) if a run of its flow forbids it."""
        self._lanes = RecentLanes()  # what is asked next must show it
        if isinstance(deed, SetLogLevel):
            _logger(deed.logger).setLevel(NUMBERS[deed.level])
            self._modified_ms[deed.logger] = wall_ms()
        elif isinstance(deed, StartCommand):
            await self._runs.start(deed)
        elif isinstance(deed, EndCommand):
            await asyncio.to_thread(self._runs.stop, deed)
        else:
            if flow := _copied_again(deed):  # also by a tool of Connect, whose routes know nothing of runs
                refuse_beside(running_of(await asyncio.to_thread(self._runs.all)), flow)
            await self._ask(deed)

    def _level(self, name: str) -> LoggerLevel:
        return LoggerLevel(level_named(_logger(name).getEffectiveLevel()), self._modified_ms.get(name))


class RecentLanes:
    """The last status with all partitions, for a second."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self._status: MirrorStatus | None = None
        self._at_s = 0.0

    def known(self, at_s: float) -> MirrorStatus | None:
        """Return the status, if it is recent."""
        return self._status if at_s - self._at_s < _LANES_LAST_S else None

    def note(self, status: MirrorStatus, at_s: float) -> None:
        """Keep a status."""
        self._status, self._at_s = status, at_s


_View = TypeVar("_View", bound=MirrorView)


def _copied_again(deed: AnyRequest) -> str:
    """Return the flow whose copiers a deed starts or replaces; empty if it does not, or not of one flow."""
    if isinstance(deed, RestartFlow | RestartCopiers):
        return deed.flow
    if isinstance(deed, GiveCommand) and deed.command in (Command.RESUME, Command.FORGET):
        return deed.flow or ""
    return ""


def _of_status(view: _View, status: MirrorStatus) -> _View:
    """Return a view with a status, and without the connectors of deleted flows. Heartbeats do not stop with a flow."""
    gone = {flow.flow for flow in status.flows if flow.deleted}
    deleted = {
        name: one
        for name, one in view.connectors.items()
        if one.flow in gone and one.kind is not ConnectorKind.HEARTBEAT
    }
    present = {name: one for name, one in view.connectors.items() if name not in deleted}
    return msgspec.structs.replace(view, status=status, connectors=present, deleted=deleted)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger() if name == ROOT else logging.getLogger(name)
