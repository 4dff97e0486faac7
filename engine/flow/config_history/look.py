"""Looks: the configs that one round saw on both sides; for each topic only what was set for it alone. Pure.

    topics with all their configs -> look_of -> Look --pack_look--> bytes (from Spark) --unpack_look--> Look

Most topics share a few sets of overrides, so equal ones are one object, and one entry when they are packed.
"""

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from policies.sync.config_sync import TopicState
from policies.sync.topic_configs import (
    DEFAULT,
    DYNAMIC_BROKER,
    DYNAMIC_DEFAULT,
    STATIC_BROKER,
    TOPIC_OVERRIDE,
    ConfigEntry,
)

Configs = Mapping[str, ConfigEntry]
Values = Mapping[str, str | None]
"""Overrides of one topic by name; None: Kafka does not give the value, because it is sensitive."""
ORIGINS = {DYNAMIC_BROKER: "broker", DYNAMIC_DEFAULT: "cluster", STATIC_BROKER: "file", DEFAULT: "kafka"}
"""Where a config comes from that is not set for the topic: one broker's or the cluster's dynamic configs, the broker's
file, Kafka's own default."""


class DefaultValue(NamedTuple):
    """What holds for topics that do not set a config themselves, and where it comes from (`ORIGINS`)."""

    value: str | None
    origin: str


Defaults = Mapping[str, frozenset[DefaultValue]]
"""Every default that some topic had, by config: several if the brokers differ."""


class SideLook(msgspec.Struct, frozen=True, kw_only=True):
    """One side, by the names of topics on the source. `unread`: topics that may exist, but were not read."""

    topics: dict[str, Values] = {}
    defaults: dict[str, frozenset[DefaultValue]] = {}
    unread: frozenset[str] = frozenset()


class ConfigLook(msgspec.Struct, frozen=True, kw_only=True):
    """Both sides at one time."""

    source: SideLook = SideLook()
    copies: SideLook = SideLook()


class _SideReader:
    """Takes the overrides and defaults out of configs; a mapping that topics share is looked through once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Configs, Values]] = {}
        """By identity; each mapping is referenced here, so that no other mapping gets its address."""
        self.defaults: defaultdict[str, set[DefaultValue]] = defaultdict(set)

    def overrides(self, configs: Configs) -> Values:
        known = self._known.get(id(configs))
        if known is None:
            own: dict[str, str | None] = {}
            for name, entry in configs.items():
                value = None if entry.sensitive else entry.value
                if entry.source == TOPIC_OVERRIDE:
                    own[name] = value
                elif entry.source in ORIGINS:
                    self.defaults[name].add(DefaultValue(value, ORIGINS[entry.source]))
            known = self._known[id(configs)] = configs, own
        return known[1]


def overrides_of(configs: Configs) -> Iterable[str]:
    """Return the names of the configs that a topic sets itself."""
    return (name for name, entry in configs.items() if entry.source == TOPIC_OVERRIDE)


def defaults_of(many: Iterable[Configs]) -> dict[str, frozenset[DefaultValue]]:
    """Return the defaults behind the configs of some topics."""
    reader = _SideReader()
    for configs in many:
        reader.overrides(configs)
    return {name: frozenset(found) for name, found in reader.defaults.items()}


def look_of(
    topics: Iterable[str],
    source: Mapping[str, TopicState],
    target: Mapping[str, TopicState],
    unread: Iterable[str],
    target_topic: Callable[[str], str],
) -> ConfigLook:
    """Make a look at some topics from all configs of them and of their copies.

    `unread`: the names, on either side, of what could not be read. A copy is read only if its source topic was. A topic
    in none of the three does not exist.
    """
    ours, theirs, missed = _SideReader(), _SideReader(), set(unread)
    found, copied, lost, lost_copies = dict[str, Values](), dict[str, Values](), set[str](), set[str]()
    for topic in topics:
        state, name = source.get(topic), target_topic(topic)
        copy = target.get(name)
        if state is not None:
            found[topic] = ours.overrides(state.configs)
        elif topic in missed:
            lost.add(topic)
        if copy is not None and state is not None:
            copied[topic] = theirs.overrides(copy.configs)
        elif copy is not None or name in missed or topic in lost:
            lost_copies.add(topic)
    return ConfigLook(source=_side(ours, found, lost), copies=_side(theirs, copied, lost_copies))


def _side(reader: _SideReader, topics: dict[str, Values], unread: set[str]) -> SideLook:
    defaults = {name: frozenset(found) for name, found in reader.defaults.items()}
    return SideLook(topics=topics, defaults=defaults, unread=frozenset(unread))


def with_defaults(look: ConfigLook, source: Iterable[Defaults], copies: Iterable[Defaults]) -> ConfigLook:
    """Add defaults that were worked out where all configs were, to a look at a part of the configs."""
    return ConfigLook(
        source=msgspec.structs.replace(look.source, defaults=_joined([look.source.defaults, *source])),
        copies=msgspec.structs.replace(look.copies, defaults=_joined([look.copies.defaults, *copies])),
    )


def merged_looks(looks: Iterable[ConfigLook]) -> ConfigLook:
    """Put looks at disjoint topics together."""
    found = list(looks)
    return ConfigLook(source=_merged([look.source for look in found]), copies=_merged([look.copies for look in found]))


def _merged(sides: list[SideLook]) -> SideLook:
    return SideLook(
        topics={topic: values for side in sides for topic, values in side.topics.items()},
        defaults=_joined([side.defaults for side in sides]),
        unread=frozenset().union(*(side.unread for side in sides)),
    )


def _joined(many: Iterable[Defaults]) -> dict[str, frozenset[DefaultValue]]:
    found: defaultdict[str, frozenset[DefaultValue]] = defaultdict(frozenset)
    for defaults in many:
        for name, values in defaults.items():
            found[name] |= values
    return dict(found)


def pack_defaults(defaults: Defaults) -> bytes:
    """Pack defaults."""
    return msgspec.msgpack.encode({name: sorted(found, key=_place) for name, found in sorted(defaults.items())})


def unpack_defaults(data: bytes) -> dict[str, frozenset[DefaultValue]]:
    """Unpack defaults. Raises msgspec.MsgspecError."""
    return msgspec.msgpack.decode(data, type=dict[str, frozenset[DefaultValue]])


def _place(default: DefaultValue) -> tuple[str, str]:
    return default.value or "", default.origin


_PackedSide = tuple[list[tuple[dict[str, str | None], list[str]]], dict[str, frozenset[DefaultValue]], list[str]]


def pack_look(look: ConfigLook) -> bytes:
    """Pack a look: topics with the same overrides share one entry."""
    return zlib.compress(msgspec.msgpack.encode([_packed(look.source), _packed(look.copies)]), 1)


def _packed(side: SideLook) -> object:
    shared: dict[tuple[tuple[str, str | None], ...], list[str]] = {}
    for topic in sorted(side.topics):
        shared.setdefault(tuple(sorted(side.topics[topic].items())), []).append(topic)
    entries = [(dict(values), topics) for values, topics in shared.items()]
    return entries, {name: sorted(found, key=_place) for name, found in side.defaults.items()}, sorted(side.unread)


def unpack_look(data: bytes) -> ConfigLook:
    """Unpack a look; the topics of an entry share one mapping. Raises zlib.error, msgspec.MsgspecError."""
    source, copies = msgspec.msgpack.decode(zlib.decompress(data), type=tuple[_PackedSide, _PackedSide])
    return ConfigLook(source=_unpacked(source), copies=_unpacked(copies))


def _unpacked(packed: _PackedSide) -> SideLook:
    entries, defaults, unread = packed
    topics: dict[str, Values] = {topic: values for values, names in entries for topic in names}
    return SideLook(topics=topics, defaults=defaults, unread=frozenset(unread))
