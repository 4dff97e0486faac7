"""Converts input files into the text of a `mirror.yaml` and a report (`raymirror convert`)."""

from collections.abc import Sequence
from itertools import permutations

import msgspec

from engine.base.errors import ConfigError
from engine.config.config import read_config
from engine.config.file.config_file import parse_file
from engine.convert.connectors import CHECKPOINT, HEARTBEAT, OLD_NAMES, SOURCE, convert_mirror_connectors
from engine.convert.draft import Draft
from engine.convert.inputs import (
    CLIENT,
    CLUSTERS,
    CONSUMER,
    HELIX,
    MAPPING,
    MM2,
    PRODUCER,
    REPLICATION,
    WORKER,
    FoundConnector,
    FoundFile,
    Inputs,
    Settings,
    read_inputs,
)
from engine.convert.mm1 import convert_mm1
from engine.convert.model import Carried, Dropped, Given, InputFile, Options, Origin, option
from engine.convert.references import hidden, is_literal_secret
from engine.convert.replicator import REPLICATOR, convert_replicator, convert_replicator_files
from engine.convert.settling import Settled, settle
from engine.convert.sink import SINK, convert_sink
from engine.convert.strimzi import read_resources
from engine.convert.topics import leave_out_internal
from engine.convert.writing import write_yaml

_MM2_CLASSES = (SOURCE, CHECKPOINT, HEARTBEAT)
_NAME = "mirror.yaml"


class Conversion(msgspec.Struct, frozen=True):
    """A converted configuration: what it was, its text, its settings, and what was dropped."""

    kind: str
    text: str
    """The whole file; it may contain secrets that the input had as text."""
    printed: str
    """The same with references in place of secrets, for a screen."""
    settings: tuple[Carried, ...]
    dropped: tuple[Dropped, ...]
    secrets: tuple[Carried, ...]
    """The settings with a secret as text, as they are printed."""

    @property
    def lost(self) -> list[Dropped]:
        """What could not be carried."""
        return [one for one in self.dropped if not one.needless]

    def __repr__(self) -> str:
        return f"Conversion({self.kind!r})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [("kind", self.kind)]


def convert(files: Sequence[InputFile], options: Options) -> Conversion:
    """Convert files of another tool. Raises ConfigError with file and line for an input that cannot be converted."""
    inputs = read_inputs(files)
    draft = _drafted(inputs, options)
    settled = settle(draft, options)
    names = [file.name for file in files]
    text = write_yaml(draft.kind, names, settled)
    _prove(text, settled)
    secrets = {key: _hidden(settled, key, options) for key, one in settled.settings.items() if is_literal_secret(one)}
    shown = msgspec.structs.replace(settled, settings={**settled.settings, **secrets})
    return Conversion(
        kind=draft.kind,
        text=text,
        printed=write_yaml(draft.kind, names, shown),
        settings=tuple(settled.settings.values()),
        dropped=settled.dropped,
        secrets=tuple(secrets.values()),
    )


def _hidden(settled: Settled, key: str, options: Options) -> Carried:
    return hidden(settled.settings[key], settled.owner(key), options.secrets)


def _prove(text: str, settled: Settled) -> None:
    """Read the text as `check` does; references can be resolved only where the mirror runs. Raises ConfigError."""
    found = parse_file(text.encode(), _NAME)
    wrong = [key for key, one in settled.settings.items() if found.get(key) != one.value]
    if wrong:
        raise ConfigError(_NAME, found.line(wrong[0]), wrong[0], "not written as it was read", "please report this")
    if not any("${" in one.value for one in settled.settings.values()):
        read_config(found)


def _drafted(inputs: Inputs, options: Options) -> Draft:
    if inputs.resources or inputs.connectors:
        return _connectors(inputs, options)
    roles = {file.role for file in inputs.files}
    if MM2 in roles:
        return _mm2(inputs, options)
    if REPLICATION in roles:
        return _replicator_files(inputs, options)
    if roles & {CONSUMER, PRODUCER, CLUSTERS}:
        _only(inputs, "MirrorMaker 1", CONSUMER, PRODUCER, CLUSTERS, MAPPING, HELIX)
        ours = bool(roles & {CLUSTERS, MAPPING, HELIX})
        tool = "uReplicator" if ours else "MirrorMaker 1"
        draft = Draft(f"{tool}'s files")
        convert_mm1(draft, inputs, options, tool)
        return draft
    file = inputs.files[0]
    raise file.origin.error(
        f"{_WHAT[file.role]} alone say nothing of a mirror", "give the files of the mirror beside it"
    )


_WHAT = {
    WORKER: "the settings of Connect workers",
    CLIENT: "the settings of one client",
    MAPPING: "names of topics",
    HELIX: "settings of Helix or a controller",
    CONSUMER: "the settings of a consumer",
    PRODUCER: "the settings of a producer",
    CLUSTERS: "addresses of uReplicator's clusters",
    MM2: "the settings of MM2",
    REPLICATION: "the settings of Replicator",
}


def _only(inputs: Inputs, whose: str, *roles: str) -> None:
    """Refuse files that do not belong to a conversion."""
    for file in inputs.files:
        if file.role not in roles:
            raise file.origin.error(f"{_WHAT[file.role]} do not belong to {whose}", "leave this file out")


def _mm2(inputs: Inputs, options: Options) -> Draft:
    _refuse_mm1_options("mm2.properties", options)
    _only(inputs, "mm2.properties", MM2)
    if len(inputs.files) > 1:
        raise inputs.files[1].origin.error("a second mm2.properties", "convert one at a time")
    draft = Draft("mm2.properties")
    for key, value in inputs.files[0].settings.items():
        name, _, rest = key.removeprefix("config.providers").removeprefix(".").partition(".")
        if key.startswith("config.providers") and rest == "class":
            draft.declare(name, value.text.strip())
        elif key == "clusters":
            draft.aliases += [alias.strip() for alias in value.text.split(",") if alias.strip()]
        elif key != "config.providers":
            _carry_mm2(draft, key, value, inputs.files[0].settings)
    pairs = (f"{source}->{target}" for source, target in permutations(draft.aliases, 2))
    draft.flows += [flow for flow in pairs if {f"{flow}.enabled", "enabled"} & draft.settings.keys()]
    for flow in draft.flows:
        leave_out_internal(draft, flow, None)
    return draft


def _carry_mm2(draft: Draft, key: str, value: Given, settings: Settings) -> None:
    """Carry a key of MM2, under its new name if it has one."""
    old = next((old for old in OLD_NAMES if key == old or key.endswith(f".{old}")), None)
    new = key if old is None else f"{key.removesuffix(old)}{OLD_NAMES[old]}"
    if new != key and new in settings:
        draft.drop_needless(value.origin, f"{new} is set instead", key)
    else:
        draft.carry(new, value, "" if new == key else f"Kafka 4.0 and newer do not read {old}")


def _replicator_files(inputs: Inputs, options: Options) -> Draft:
    _only(inputs, "Replicator", REPLICATION, CONSUMER, PRODUCER)
    draft = Draft("Confluent Replicator's files")
    _refuse_mm1_options(draft.kind, options)
    clients = [inputs.of(role) for role in (CONSUMER, PRODUCER)]
    consumer, producer = (found[0].settings if found else {} for found in clients)
    convert_replicator_files(draft, inputs.of(REPLICATION)[0], consumer, producer, options)
    return draft


def _refuse_mm1_options(whose: str, options: Options) -> None:
    """Refuse options of MirrorMaker 1 for another tool, whose files say the same. Raises ConfigError."""
    given = {
        "whitelist": options.whitelist,
        "blacklist": options.blacklist,
        "num.streams": options.num_streams,
        "message.handler": options.message_handler,
    }
    for name in (name for name, value in given.items() if value is not None):
        raise option(name).error(f"it does not belong to {whose}", "leave it out: the files say what is mirrored")


def _connectors(inputs: Inputs, options: Options) -> Draft:
    draft = Draft("Strimzi's resources" if inputs.resources else "connectors of Kafka Connect")
    more = read_resources(draft, inputs.resources, options)
    connectors = (*more.connectors, *inputs.connectors)
    workers = (*more.workers, *inputs.of(WORKER))
    _only(inputs, draft.kind, WORKER)
    if connectors:
        _refuse_mm1_options(draft.kind, options)
    mirrors = [one for one in connectors if one.class_name in _MM2_CLASSES]
    others = [one for one in connectors if one.class_name in (SINK, REPLICATOR)]
    _drop_strangers(draft, connectors)
    if mirrors:
        convert_mirror_connectors(draft, mirrors, workers, options)
        for flow in draft.flows:
            leave_out_internal(draft, flow, more.versions.get(flow))
    for connector in others:
        _convert_one(draft, connector, () if mirrors else workers, options)
    if not draft.flows:
        raise _first_origin(inputs).error(
            "there is no mirror in it", f"give connectors of one of {', '.join((*_MM2_CLASSES, SINK, REPLICATOR))}"
        )
    return draft


def _convert_one(draft: Draft, connector: FoundConnector, workers: Sequence[FoundFile], options: Options) -> None:
    if connector.class_name == SINK:
        convert_sink(draft, connector, workers, options)
    else:
        convert_replicator(draft, connector, workers, options)


def _drop_strangers(draft: Draft, connectors: Sequence[FoundConnector]) -> None:
    for one in connectors:
        if one.class_name not in (*_MM2_CLASSES, SINK, REPLICATOR):
            draft.drop_needless(one.origin, f"connector {one.name!r} is a {one.class_name or 'thing without a class'}")


def _first_origin(inputs: Inputs) -> Origin:
    if inputs.connectors:
        return inputs.connectors[0].origin
    return inputs.resources[0].at("kind")
