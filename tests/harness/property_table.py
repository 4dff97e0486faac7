"""Every topic config of the broker, copied by MM2 and by raymirror from the same source to the same target.

Each config gets a topic per case; MM2 copies them under its aliases, raymirror under its own. The result is one word
per case for the copy's own override. The broker describes the configs, and accepts the values.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError

from deploy.local.cluster import EmbeddedCluster
from engine.base.clock import now_s
from engine.config.config import load_config
from engine.config.settings import MirrorConfig
from engine.flow.config_sync.planning import Scope
from engine.flow.config_sync.sync import ConfigSync
from engine.services.config_service import config_sync
from policies.sync.acl_sync import Binding, Pattern, Resource
from tests.harness.acl_table import TOPIC, Column, driven
from tests.harness.admin import all_configs, create_each, own_configs, set_configs, set_each
from tests.harness.eventually import until_equal
from tests.harness.kafka_admin import KafkaAdmin
from tests.harness.mm2 import ONE_REPLICA, Mm2

DEADLINE_S = 240.0
SENTINEL = "table-sentinel"
_WORDS = ("compact", "gzip", "LogAppendTime", "*")


class Case(Enum):
    """What is set where before anybody looks."""

    SOURCE = "set on the source"
    COPY = "set on the copy only"
    BOTH = "set on the source, the default set on the copy"
    GONE = "set on the source, then taken away there"


class Drive(NamedTuple):
    """One config: its default, and another value that the broker takes; None: it takes no other."""

    name: str
    default: str
    value: str | None

    def topic(self, case: Case) -> str:
        """Name the topic of a case."""
        return f"table-{self.name}-{case.name.lower()}"


class Setting(NamedTuple):
    """One configuration: MM2's alias and ours for the same source, and the keys of its flow."""

    title: str
    mm2: str
    ours: str
    keys: Mapping[str, str]


SETTINGS = (
    Setting("with MM2's defaults", "m", "r", {}),
    Setting(
        "with nothing excluded and `use.defaults.from = source`",
        "n",
        "s",
        {"config.properties.exclude": "nothing", "use.defaults.from": "source"},
    ),
)
Outcomes = dict[tuple[str, Case], str]
"""By config and case, in words."""


async def drives(cluster: EmbeddedCluster, scratch: str) -> list[Drive]:
    """List every config that the broker tells of a topic, with a value for it that it takes."""
    found = []
    for name, default in sorted((await all_configs(cluster, scratch)).items()):
        value = None
        for candidate in _candidates(default):
            if await _takes(cluster, scratch, {name: candidate}):
                value = candidate
                break
        found.append(Drive(name, default, value))
    return found


async def _takes(cluster: EmbeddedCluster, topic: str, configs: Mapping[str, str]) -> bool:
    try:
        await set_configs(cluster, topic, configs)
    except KafkaError:
        return False
    return True


def _candidates(default: str) -> Iterator[str]:
    if default in ("true", "false"):
        yield "false" if default == "true" else "true"
        return
    try:
        number = float(default)
    except ValueError:
        yield from (word for word in _WORDS if word != default)
        return
    if default.lstrip("-").isdigit():
        yield from (str(near) for near in (int(default) + 1, int(default) - 1, 1, 2) if near != int(default))
    else:
        yield str(number / 2)


class Table:
    """The stage of the table: topics on the source, copies under every alias on the target."""

    def __init__(
        self, source: EmbeddedCluster, target: EmbeddedCluster, admins: tuple[KafkaAdmin, KafkaAdmin], folder: Path
    ) -> None:
        self._source, self._target = source, target
        self._admin, self._target_admin = admins
        self._folder = folder
        self._drives: list[Drive] = []
        self.bindings: list[Binding] = []
        self.acls: dict[str, Column] = {}

    async def outcomes(self) -> dict[str, Outcomes]:
        """Drive both, and return what became of every copy, by alias."""
        await create_each(self._source, {"table-scratch": {}})
        self._drives = await drives(self._source, "table-scratch")
        await self._create()
        self.bindings = driven(self._admin)
        async with self._mm2():
            await self._until_mm2_looked("1")
            await self._ours()
            await set_each(self._source, {drive.topic(Case.GONE): {} for drive in self._usable()})
            await self._until_mm2_looked("2")
            await self._all_acls()
        return {alias: await self._read(alias) for alias in self._aliases()}

    @property
    def untaken(self) -> list[str]:
        """Configs of which this broker takes no other value."""
        return [drive.name for drive in self._drives if drive.value is None]

    def _usable(self) -> list[Drive]:
        return [drive for drive in self._drives if drive.value is not None]

    def _aliases(self) -> list[str]:
        return [alias for setting in SETTINGS for alias in (setting.mm2, setting.ours)]

    async def _create(self) -> None:
        on_source, on_copy = ({name: dict[str, str]() for name in (SENTINEL, TOPIC)} for _ in range(2))
        for drive in self._usable():
            given = {drive.name: drive.value or ""}
            on_source |= {drive.topic(case): dict(given) for case in (Case.SOURCE, Case.BOTH, Case.GONE)}
            on_source[drive.topic(Case.COPY)] = {}
            on_copy |= {drive.topic(case): {} for case in (Case.SOURCE, Case.GONE)}
            on_copy[drive.topic(Case.COPY)], on_copy[drive.topic(Case.BOTH)] = dict(given), {drive.name: drive.default}
        await create_each(self._source, on_source)
        for alias in self._aliases():
            await create_each(self._target, {f"{alias}.{topic}": configs for topic, configs in on_copy.items()})

    @asynccontextmanager
    async def _mm2(self) -> AsyncIterator[None]:
        properties = {"tasks.max": "1", "emit.heartbeats.enabled": "false", **ONE_REPLICA}
        properties |= {"sync.topic.configs.interval.seconds": "1", "sync.topic.acls.interval.seconds": "1"}
        mm2 = Mm2(self._folder / "mm2", self._file({setting.mm2: setting for setting in SETTINGS}) | properties)
        try:
            yield
        finally:
            await mm2.kill()

    def _file(self, settings: Mapping[str, Setting]) -> dict[str, str]:
        text = {"clusters": ", ".join([*settings, "b"]), "b.bootstrap.servers": self._target.bootstrap_servers}
        for alias, setting in settings.items():
            text |= {f"{alias}.bootstrap.servers": self._source.bootstrap_servers}
            text |= {f"{alias}->b.enabled": "true", f"{alias}->b.topics": "table-.*, [*]"}
            text |= {f"{alias}->b.{key}": value for key, value in setting.keys.items()}
        return text

    async def _until_mm2_looked(self, mark: str) -> None:
        """Wait until MM2 carried two values over, one after the other: all topics go with each."""
        for value in (f"{mark}0000001", f"{mark}0000002"):
            await set_configs(self._source, SENTINEL, {"retention.ms": value})
            give_up_at_s = now_s() + DEADLINE_S
            while not await self._carried(value):
                assert now_s() < give_up_at_s, (self._folder / "mm2" / "mm2.log").read_text()[-3000:]
                await asyncio.sleep(0.2)

    async def _carried(self, value: str) -> bool:
        """Whether MM2's copies of the sentinel have a value."""
        try:
            found = await own_configs(self._target, [f"{setting.mm2}.{SENTINEL}" for setting in SETTINGS])
        except UnknownTopicOrPartitionError:
            return False  # they were made, and a slow broker has not heard of them
        return all(own.get("retention.ms") == value for own in found.values())

    async def _all_acls(self) -> None:
        """Wait until MM2 has carried a binding over that was the last to be added; then ours, without options first."""
        last = Binding(int(Resource.TOPIC), SENTINEL, int(Pattern.LITERAL), "User:last", "*", 3, 3)
        self._admin.add_acls([last])
        give_up_at_s = now_s() + DEADLINE_S
        while last._replace(name=f"m.{SENTINEL}") not in self._target_admin.acls():
            assert now_s() < give_up_at_s, (self._folder / "mm2" / "mm2.log").read_text()[-3000:]
            await asyncio.sleep(0.2)
        self.acls["MM2"] = "m", self._target_admin.acls()
        options = {"raymirror.sync.acls.prefixed": "true", "raymirror.sync.acls.groups": "true"}
        for title, alias, keys in (("raymirror", "r", {}), ("raymirror with both options", "o", options)):
            config = self._config(Setting(title, "m", alias, keys))
            async with config_sync(config, config.flows[0], "table") as sync:
                scope = Scope(configs=False)
                await sync.apply((await sync.compare(scope)).changes)
                await _until_in_step(sync, scope)
            self.acls[title] = alias, self._target_admin.acls()

    def _config(self, *settings: Setting) -> MirrorConfig:
        path = self._folder / "mm2.properties"
        lines = self._file({setting.ours: setting for setting in settings}) | {"replication.factor": "1"}
        path.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
        return load_config(path)

    async def _ours(self) -> None:
        """Look and apply; take away what is to go; look again with what we know, and apply."""
        config = self._config(*SETTINGS)
        for flow in config.flows:
            async with config_sync(config, flow, "table") as sync:
                scope = Scope(acls=False, shapes=False)
                await sync.apply((await sync.compare(scope)).changes)
                await _until_in_step(sync, scope)
                gone = [drive.topic(Case.GONE) for drive in self._usable()]
                await set_each(self._source, {topic: {} for topic in gone})
                await until_equal(lambda: own_configs(self._source, gone), {topic: dict[str, str]() for topic in gone})  # noqa: B023
                await sync.apply((await sync.compare(scope)).changes)
                await _until_in_step(sync, scope)
            # The next flow begins where this one began.
            given = {drive.topic(Case.GONE): {drive.name: drive.value or ""} for drive in self._usable()}
            await set_each(self._source, given)
            await until_equal(lambda: own_configs(self._source, given), given)  # noqa: B023

    async def _read(self, alias: str) -> Outcomes:
        topics = {(drive, case): f"{alias}.{drive.topic(case)}" for drive in self._usable() for case in Case}
        own = await own_configs(self._target, topics.values())
        return {(drive.name, case): _word(drive, own[topic]) for (drive, case), topic in topics.items()}


async def _until_in_step(sync: ConfigSync, scope: Scope) -> None:
    """Wait until the target tells what was written to it: nothing is left to do."""

    async def left() -> int:
        return len((await sync.compare(scope)).changes)

    await until_equal(left, 0)


def _word(drive: Drive, own: Mapping[str, str]) -> str:
    """Say what a copy has of its own: the value that was set, the default, or nothing."""
    if drive.name not in own:
        return "none"
    return {drive.value: "the value", drive.default: "the default"}.get(own[drive.name], own[drive.name])


def render(setting: Setting, outcomes: Mapping[str, Outcomes], untaken: list[str]) -> str:
    """Draw one setting's table, MM2 / raymirror in each cell, one word where they agree."""
    theirs, ours = outcomes[setting.mm2], outcomes[setting.ours]
    names = sorted({name for name, _ in theirs})
    rows = [f"| config | {' | '.join(case.value for case in Case)} |", f"| --- |{' --- |' * len(Case)}"]
    for name in names:
        cells = []
        for case in Case:
            one, other = theirs[name, case], ours[name, case]
            cells.append(one if one == other else f"**{one} / {other}**")
        rows.append(f"| `{name}` | {' | '.join(cells)} |")
    rows += [f"| `{name}` |{' - |' * len(Case)}" for name in untaken]
    return "\n".join(rows)
