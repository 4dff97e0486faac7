"""Composition: configs and ACLs of one flow's copies, kept in step over connections of their own."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from engine.clock import backoff_s, pause
from engine.core.config_report import ConfigReport
from engine.core.events import AnyEvent
from engine.errors import MirrorError
from engine.flow.config_rounds import ConfigRounds, RoundTerms
from engine.flow.config_sync import ConfigSync, ConfigSyncTerms
from engine.kafka.settings import KafkaSettings
from engine.runner import client_for
from engine.settings import FlowConfig, MirrorConfig

_MOST_S, _LOOK_S = 30.0, 0.25


def config_sync_terms(flow: FlowConfig) -> ConfigSyncTerms:
    """Return the rules of a flow's configuration."""
    return ConfigSyncTerms(replication_factor=flow.replication_factor, configs=flow.config_rules, acls=flow.acl_rules)


@asynccontextmanager
async def config_sync(config: MirrorConfig, flow: FlowConfig, client_id: str) -> AsyncIterator[ConfigSync]:
    """Connect to both clusters of a flow, for one look or more. Raises BrokerUnreachable, ConfigError."""
    source, target = (client_for(config.clusters[alias], client_id) for alias in flow.name)
    try:
        await source.open()
        await target.open()
        yield ConfigSync(config_sync_terms(flow), KafkaSettings(source), KafkaSettings(target))
    finally:
        await source.close()
        await target.close()


class ConfigKeeper:
    """The ConfigRounds of a flow: `run` connects first, and tries that again until it can.

    `may_write` is asked before each round and before each writing.
    """

    def __init__(self, config: MirrorConfig, flow: FlowConfig, may_write: Callable[[], bool] = lambda: True) -> None:
        client_id = f"raymirror|{flow.name}|configs"
        self._clients = tuple(client_for(config.clusters[alias], client_id) for alias in flow.name)
        source, target = map(KafkaSettings, self._clients)
        wanted = flow.config_sync
        terms = RoundTerms(
            flow=flow.name,
            configs_s=wanted.configs_s if wanted.configs else None,
            acls_s=wanted.acls_s if wanted.acls else None,
        )
        self._rounds = ConfigRounds(terms, ConfigSync(config_sync_terms(flow), source, target), may_write)

    @property
    def may_write(self) -> Callable[[], bool]:
        """Whether the flow is ours; whoever knows may set it."""
        return self._rounds.may_write

    @may_write.setter
    def may_write(self, ask: Callable[[], bool]) -> None:
        self._rounds.may_write = ask

    @property
    def report(self) -> ConfigReport:
        """What the last round did."""
        return self._rounds.report

    def take_events(self) -> tuple[AnyEvent, ...]:
        """Hand over what happened since the last call."""
        return self._rounds.take_events()

    async def run(self) -> None:
        """Keep in step until cancelled; returns at once where neither configs nor ACLs are asked for."""
        if self._rounds.idle:
            return
        attempt = 0
        while not await self._ready():
            attempt += 1
            await pause(backoff_s(attempt, most_s=_MOST_S))
        await self._rounds.run()

    async def _ready(self) -> bool:
        while not self.may_write():
            await pause(_LOOK_S)
        try:
            for client in self._clients:
                await client.open()
        except (MirrorError, OSError, TimeoutError) as failure:
            self._rounds.trouble(str(failure))
            return False
        return True

    async def close(self) -> None:
        """Disconnect."""
        for client in self._clients:
            await client.close()
