"""Finds sites without a Ray node, for copiers that must run in one: they wait, and `status` says for what."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from actors.logging.logs import log_sentence
from engine.base.errors import MirrorError
from policies.placement.sites import missing_site, missing_sites

LOOK_S = 5.0
"""Seconds between two looks at the nodes, while a copier starts that must run in a site; otherwise nobody asks Ray."""


class NodesUnknown(MirrorError):
    """Ray does not answer which nodes its cluster has."""

    exit_code = 1

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        return f"the nodes of the Ray cluster are not known now: {self.cause}"


class SiteNodes:
    """Which of the wanted sites have no node. `sites`: the sites of copiers that are starting now. `nodes`: asks Ray;
    it blocks, and raises NodesUnknown.
    """

    def __init__(self, sites: Callable[[], frozenset[str]], nodes: Callable[[], Sequence[Mapping[str, Any]]]) -> None:
        self._sites, self._nodes = sites, nodes
        self._missing: frozenset[str] = frozenset()

    def missing(self, site: str) -> str:
        """Return why no copier can start in a site; empty if one can, or if that is not known."""
        return missing_site(site) if site in self._missing else ""

    async def run(self) -> None:
        """Ask Ray every few seconds while copiers wait for a site; returns when cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Ask Ray once, if a copier waits for a site. A Ray that does not answer leaves the last answer."""
        wanted = self._sites()
        if not wanted:
            self._missing = frozenset()
            return
        try:
            nodes = await asyncio.to_thread(self._nodes)
        except NodesUnknown as unknown:
            log_sentence("warning", str(unknown))
            return
        self._missing = frozenset(missing_sites(wanted, nodes))
