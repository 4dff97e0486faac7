"""Checks, in a running mirror, the flows that `run` could not check because their clusters were unreachable.

An unchecked flow starts on the same conditions as in `run`: see `preview` and `refuse_running_mm2`. A loop over several
flows shows only when the flows are compared together. So flows are admitted one after the other, also the flows that
`run` checked, and the flow that would close a loop is refused.
"""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from engine.base.errors import BrokerUnreachable, ConnectionLost, NotReady
from engine.base.tasks import run_all
from engine.checks.mm2_preflight import Mm2Runs, OtherConnector, refuse_running_mm2
from engine.checks.preflight import CLIENT_ID, preview, preview_flow
from engine.checks.shared_clusters import SharedClusters
from engine.config.file.file_kind import worded
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.events.events import AnyEvent, StartDoubt
from engine.kafka.client.metadata import Metadata
from engine.services.clients import asking_client, opened
from policies.model import FlowName

_PATIENCE_S = 5.0
"""How long to wait for a cluster of another flow; after that, its last known metadata is compared."""


class LateChecks:
    """Admits the flows of a mirror; `unchecked`: the flows that were not checked when it started."""

    def __init__(self, config: MirrorConfig, unchecked: Collection[FlowName]) -> None:
        self._config, self._unchecked = config, frozenset(unchecked)
        self._admitted: list[FlowName] = []
        self._known: dict[str, Metadata] = {}
        """The last metadata of each cluster of the admitted flows."""
        self._turn = asyncio.Lock()

    async def admit(self, name: FlowName) -> tuple[AnyEvent, ...]:
        """Return, as events, the doubts about a flow that may start; return () at once if it was admitted before.

        Raises NotReady with all problems in one line; BrokerUnreachable, ConnectionLost, KafkaRefusal if the check is
        not possible now; ConfigError.
        """
        if name in self._admitted or not self._unchecked:
            return ()
        flow = self._config.flow(name)
        doubts = await self._look(flow) if name in self._unchecked else ()
        async with self._turn:
            await self._compare(flow)
            self._admitted.append(name)
            if len(self._admitted) == len(self._config.flows):
                self._known.clear()
        return doubts

    async def _look(self, flow: FlowConfig) -> tuple[AnyEvent, ...]:
        """Check one flow as `run` does; its clusters may just have started, and not have loaded their groups."""
        alone = msgspec.structs.replace(self._config, flows=(flow,))
        problems: list[str] = []
        doubts: list[str] = []
        try:
            for found in await preview(alone, _raise, young=True):
                doubts += (*found.texts, *map(str, found.idle))
        except NotReady as wrong:
            problems += wrong.problems
        try:
            doubts += [warning.what for warning in await refuse_running_mm2(alone, [flow.name])]
        except (Mm2Runs, OtherConnector) as wrong:
            problems.append(str(wrong))
        _refuse(problems)
        file = self._config.file
        return tuple(StartDoubt(flow=flow.name, what=worded(f"{file}: {what}", Path(file))) for what in doubts)

    async def _compare(self, flow: FlowConfig) -> None:
        """Compare the clusters of this flow with the clusters of all admitted flows."""
        await run_all(*map(self._ask, flow.name))
        together = [*self._admitted, flow.name]
        if self._unchecked.isdisjoint(together):
            return  # `run` has compared these flows
        others = {alias for one in self._admitted for alias in one} - set(flow.name)
        await run_all(*map(self._ask_again, sorted(others)))
        flows = [self._config.flow(one) for one in together]
        shared = SharedClusters(self._config, flows, self._known)
        copies = {one.name: preview_flow(one, self._known, self._config.places).copies for one in flows}
        _refuse([problem.text for problem in shared.problems(copies)])

    async def _ask(self, alias: str) -> None:
        client = asking_client(self._config, alias, CLIENT_ID)
        async with opened(client):
            self._known[alias] = await client.metadata(None)

    async def _ask_again(self, alias: str) -> None:
        """Ask a cluster of an admitted flow; if it is unreachable now, its last known metadata is used."""
        with suppress(BrokerUnreachable, ConnectionLost, OSError, TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                await self._ask(alias)


def _raise(_alias: str, away: BrokerUnreachable) -> None:
    raise away


def _refuse(problems: Sequence[str]) -> None:
    """Raise NotReady if there are problems, in one line, since events and tables need one line."""
    if problems:
        raise NotReady("; also: ".join(dict.fromkeys(problems)))
