"""Decides the fate of configuration keys that raymirror does not read.

The possible places of a key, and its effect there in MM2 4.3.1 (MirrorMakerConfig.connectorBaseConfig and
workerConfig):

    place                     | reaches in MM2
    --------------------------+----------------------------------------------------------------------------
    key                       | connectors: their own keys only; the worker: keys that start with offset.storage,
                              | config.storage, status.storage, *.converter, task, worker, replication.policy
    X.key                     | connections of X; the worker of flows to X
    X.consumer. producer. ... | the clients of X; the producer of the data if X is the target
    A->B.key                  | the connectors of A->B, never the worker
    A->B.source.consumer.key  | the consumer of the data
    A->B.producer.key         | the producer of offset syncs
    A->B.producer.override.   | the producer of the data
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from policies.keys.kafka_keys import (
    ADMIN,
    CLIENT_COMMON,
    CONNECTOR,
    CONSUMER,
    FAMILIES,
    LIBRDKAFKA,
    MEANT,
    PRODUCER,
    USUAL_EXCLUDES,
    WORKER,
    KeyFate,
    Ruling,
)
from policies.keys.likeness import nearest
from policies.model import FlowName

_OWN = "raymirror."
_CLIENT = re.compile(r"(?P<side>source\.|target\.)?(?P<client>consumer|producer|admin)\.(?P<override>override\.)?")
_CLIENTS = {"consumer": CONSUMER, "producer": PRODUCER, "admin": ADMIN}
_SELECTION = ("topics", "topics.exclude", "groups", "groups.exclude")
_NOT_AT_TOP = ("offsets.storage.topic", "topic.creation.groups")
"""Keys of every Connect source connector that MM2's connectors do not define."""
_NO_EFFECT = Ruling(KeyFate.NEEDLESS, "it has no effect in MM2 either")
_SYNCS = Ruling(KeyFate.NEEDLESS, "it tunes the producer of MM2's offset syncs")
_READS_TARGET = (
    "MM2 reads offset syncs and checkpoints on {alias} with it; raymirror reads {alias} by the logins of its producer"
    " and of its admin client, which need Read there"
)
_SAME_ALIAS = Ruling(KeyFate.NEEDLESS, "it is the same as in the flow's name")
_SAME = Ruling(KeyFate.NEEDLESS, "it is the same as the cluster's value")


class KeyParts(NamedTuple):
    """The parts of a key: the prefix (a flow or an alias with its dot, or empty), the client, the rest of the name."""

    prefix: str
    client: str
    name: str

    @property
    def whole(self) -> str:
        """The name with the client before it."""
        return self.client + self.name

    @property
    def key(self) -> str:
        """The key as it is in the file."""
        return self.prefix + self.whole

    @property
    def is_flow(self) -> bool:
        """Whether the key is one of a flow."""
        return "->" in self.prefix


class Scene(msgspec.Struct, frozen=True):
    """The file that contains a key: its aliases and flows, its values, and the keys that are read.

    `honoured`: the names of each level of engine/CONFIG.md. `asked`: the keys that were asked for, set or not.
    """

    aliases: tuple[str, ...]
    flows: tuple[FlowName, ...]
    values: Mapping[str, str]
    honoured: Mapping[str, frozenset[str]]
    asked: frozenset[str]

    def is_honoured(self, name: str, *levels: str) -> bool:
        """Whether one of these levels has the name."""
        return any(name in self.honoured.get(level, ()) for level in levels)

    def take_apart(self, key: str) -> KeyParts:
        """Split a key into its parts; if several aliases fit, the longest one wins."""
        ends = (end for end in range(len(key), 0, -1) if key[end - 1] == "." and self._is_place(key[: end - 1]))
        prefix = key[: next(ends, 0)]
        rest = key.removeprefix(prefix)
        found = _CLIENT.match(rest)
        client = found[0] if found else ""
        return KeyParts(prefix, client, rest.removeprefix(client))

    def _is_place(self, text: str) -> bool:
        """Whether a text is an alias, or two of them as a flow has them."""
        source, arrow, target = text.partition("->")
        return source in self.aliases and (not arrow or (target in self.aliases and source != target))


def judge(key: str, scene: Scene) -> Ruling:
    """Return the fate of a key that raymirror does not read."""
    place, value = scene.take_apart(key), scene.values[key]
    ruling = (
        _of_absent_cluster(key, scene)
        or _of_ours(place, scene)
        or _of_names_meant(place, scene)
        or _of_tables(place, scene)
        or _of_families(place)
    )
    return ruling.of(value) if ruling else _unknown(key, place, scene)


def _differs(why: str) -> Ruling:
    return Ruling(KeyFate.DIFFERENT, why)


def _refused(why: str, right: str) -> Ruling:
    return Ruling(KeyFate.UNSUPPORTED, why, right)


def _of_absent_cluster(key: str, scene: Scene) -> Ruling | None:
    """Judge the keys of a cluster that has `bootstrap.servers` but is not in `clusters`."""
    if "->" in key:
        return None
    bootstrap = ".bootstrap.servers"
    for other in scene.values:
        alias = other.removesuffix(bootstrap)
        client = scene.take_apart(other).client
        if other.endswith(bootstrap) and "->" not in other and other not in scene.asked and not client:
            if key == other:
                return _differs(f"cluster {alias!r} is not in clusters; add it there, or remove the line")
            if key.startswith(f"{alias}."):
                return Ruling(KeyFate.NEEDLESS, f"cluster {alias!r} is not in clusters")
    return None


def _of_ours(place: KeyParts, scene: Scene) -> Ruling | None:
    """Judge a key that begins with `raymirror.`: it is unknown, or in a place where it is not read."""
    if not place.name.startswith(_OWN):
        return None
    if scene.is_honoured(place.name, "flow"):
        return _refused("it is read for a flow, or at top level for all flows", f"write {_flow(scene)}.{place.name}")
    if scene.is_honoured(place.name, "cluster"):
        right = " or ".join(f"{alias}.{place.name}" for alias in scene.aliases[:2])
        return _refused("it is read for a cluster, or at top level for all clusters", f"write {right}")
    if scene.is_honoured(place.name, "top"):
        return _refused("it is read at top level only", f"write {place.name}")
    own = {name for level in ("flow", "top") for name in scene.honoured.get(level, ()) if name.startswith(_OWN)}
    meant = nearest(place.name, own)
    right = f"did you mean {meant}?" if meant else "see engine/CONFIG.md"
    return Ruling(KeyFate.MISTYPED, "raymirror has no such key", right)


def _of_names_meant(place: KeyParts, scene: Scene) -> Ruling | None:
    """Judge names from old releases, from proposals, and from librdkafka."""
    if place.name in LIBRDKAFKA:
        prefix = place.prefix or f"{scene.aliases[0]}."
        return _refused("this is a key of librdkafka", f"write {prefix}{LIBRDKAFKA[place.name]}")
    if place.client:
        return None
    if place.name in MEANT:
        name = MEANT[place.name]
        new = place.prefix + name if place.is_flow or not place.prefix else f"{_flow(scene)}.{name}"
        if new in scene.values:
            return Ruling(KeyFate.NEEDLESS, f"{new} is set instead")
        old = "blacklist" in place.name
        why = "not read, as in Kafka 4.0 and newer" if old else "not read, as in MM2"
        if old and {item.strip() for item in scene.values[place.key].split(",")} <= USUAL_EXCLUDES:
            return _differs(f"{why}; raymirror excludes these defaults anyway; for other excludes write {new}")
        return Ruling(KeyFate.MISTYPED, why, f"did you mean {new}?")
    if scene.is_honoured(f"{place.name}.enabled", "flow"):
        return _differs(f"ignored, as in MM2; the key is {place.prefix}{place.name}.enabled")
    return None


def _of_tables(place: KeyParts, scene: Scene) -> Ruling | None:
    if place.is_flow:
        return _of_flow(place, scene)
    return _of_cluster(place, scene) if place.prefix else _of_top(place, scene)


def _of_top(place: KeyParts, scene: Scene) -> Ruling | None:
    source, target = scene.flows[0]
    whole, name = place.whole, place.name
    nowhere = "has no effect at top level, as in MM2; write"
    if whole in _NOT_AT_TOP:
        return _NO_EFFECT
    if scene.is_honoured(whole, "filter"):
        return _differs(f"{nowhere} {_flow(scene)}.{whole} for each flow")
    if scene.is_honoured(whole, "worker"):
        return _differs(f"{nowhere} {target}.{whole}")
    if place.client and _is_common(name, scene):
        return _differs(f"{nowhere} {source}.{name}")
    for client, alias in (("consumer", source), ("producer", target), ("admin", source)):
        if place.client in ("", f"{client}.") and scene.is_honoured(name, client):
            return _differs(f"{nowhere} {alias}.{client}.{name}")
    if found := CONNECTOR.get(whole) or WORKER.get(whole) or CLIENT_COMMON.get(whole):
        return found
    return _NO_EFFECT if _is_clients(place) else None


def _of_cluster(place: KeyParts, scene: Scene) -> Ruling | None:
    if place.client:
        return _of_client(place, scene, place.prefix[:-1])
    if found := WORKER.get(place.name) or CLIENT_COMMON.get(place.name):
        return found
    if scene.is_honoured(place.name, "flow", "filter"):
        right = f"write {_flow(scene)}.{place.name}"
        if place.name in _SELECTION:
            return _refused("has no effect under a cluster, as in MM2, so it selects nothing", right)
        return _differs(f"has no effect under a cluster, as in MM2; {right}")
    for client in ("consumer", "producer"):
        if scene.is_honoured(place.name, client):
            right = f"{place.prefix}{client}.{place.name}"
            return _differs(f"has no effect without its client, as in MM2; write {right}")
    return _NO_EFFECT if place.name in CONNECTOR or _is_clients(place) else None


def _of_flow(place: KeyParts, scene: Scene) -> Ruling | None:
    name = place.whole
    source, target = place.prefix[:-1].split("->")
    if scene.values[place.key].strip() == {"source.cluster.alias": source, "target.cluster.alias": target}.get(name):
        return _SAME_ALIAS
    if found := CONNECTOR.get(name):
        return found
    side, _, setting = name.partition(".cluster.")
    if side in ("source", "target") and _is_common(setting, scene):
        alias = source if side == "source" else target
        return _refused("a flow has no connections of its own", f"write {alias}.{setting}")
    if place.client:
        return _of_client(place, scene, target if place.client.startswith(("target.", "producer.")) else source)
    nowhere = "has no effect under a flow, as in MM2; write"
    if scene.is_honoured(name, "worker", "storage"):
        return _differs(f"{nowhere} {target}.{name}")
    if name in CLIENT_COMMON or scene.is_honoured(name, "cluster"):
        return _differs(f"{nowhere} {source}.{name} or {target}.{name}")
    if scene.is_honoured(name, "consumer"):
        return _differs(f"{nowhere} {place.prefix}source.consumer.{name}")
    if scene.is_honoured(name, "producer"):
        return _differs(f"{nowhere} {place.prefix}producer.override.{name}")
    return _NO_EFFECT if name in WORKER or _is_clients(place) or side in ("source", "target") else None


def _of_client(place: KeyParts, scene: Scene, alias: str) -> Ruling | None:
    """Judge a setting of one client of a cluster or a flow."""
    found = _CLIENT.match(place.client)
    assert found is not None
    if _is_common(place.name, scene):
        return _of_login(place, scene, alias, found["client"])
    ruling = _CLIENTS[found["client"]].get(place.name)
    if place.is_flow and found["client"] == "producer" and not found["override"]:
        if scene.is_honoured(place.name, "producer"):
            right = f"{place.prefix}producer.override.{place.name}"
            return _differs(f"never reaches the producer of the data, as in MM2; write {right}")
        return _SYNCS if ruling else None
    if place.is_flow and found["side"] == "target." and found["client"] == "consumer":
        return _NO_EFFECT if ruling or scene.is_honoured(place.name, "consumer") else None
    return ruling


def _of_login(place: KeyParts, scene: Scene, alias: str, client: str) -> Ruling:
    """Judge a connection setting of a client that has no login of its own here (`policies/keys/places.py`)."""
    name, mine = place.name, scene.values[place.key].strip()
    used = (f"{alias}.{name}", name, *(f"{alias}.{one}.{name}" for one in _CLIENTS))
    if any(scene.values[one].strip() == mine for one in used if one != place.key and one in scene.values):
        return _SAME
    ruling = CLIENT_COMMON.get(name) or _of_families(KeyParts("", "", name))
    if ruling is not None and ruling.fate is not KeyFate.UNSUPPORTED:
        return ruling
    if ruling is not None or name == "bootstrap.servers":
        return _refused("all clients of a cluster use the same connection settings", f"write {alias}.{name}")
    if not any(alias in flow for flow in scene.flows):
        return Ruling(KeyFate.NEEDLESS, f"no flow uses cluster {alias!r}")
    return _SYNCS if client == "producer" else _differs(_READS_TARGET.format(alias=alias))


def _of_families(place: KeyParts) -> Ruling | None:
    return next((ruling for begin, ruling in FAMILIES if place.whole.startswith(begin)), None)


def _unknown(key: str, place: KeyParts, scene: Scene) -> Ruling:
    """Judge an unknown key: refuse it as mistyped if a similar key is read."""
    alike = [one for one in scene.asked if one.startswith(place.prefix + place.client)]
    read = {other.name: one for one in alike if (other := scene.take_apart(one))[:2] == place[:2]}
    kafkas = _known_at(place)
    meant = nearest(place.name, {*read, *kafkas})
    if meant in read:
        return Ruling(KeyFate.MISTYPED, "no such key", f"did you mean {read[meant]}?")
    if meant is None and (elsewhere := _with_prefix_mended(key, scene)):
        return Ruling(KeyFate.MISTYPED, "no such key", f"did you mean {elsewhere}?")
    guess = f"; did you mean {place.prefix}{place.client}{meant}?" if meant else ""
    return _differs(f"not a key of MM2 or raymirror, so it has no effect{guess}")


def _with_prefix_mended(key: str, scene: Scene) -> str | None:
    """Return the key that is read and differs from this one a little, and only in its prefix."""
    end = key.rpartition(".")[2]
    alike = sorted(one for one in scene.asked if one.rpartition(".")[2] == end)
    return next((one for one in alike if _differs_before_its_name(key, scene.take_apart(one))), None)


def _differs_before_its_name(key: str, right: KeyParts) -> bool:
    before = right.prefix + right.client
    return key.endswith(f".{right.name}") and bool(nearest(key.removesuffix(right.name), [before] if before else []))


def _known_at(place: KeyParts) -> Mapping[str, Ruling]:
    if found := _CLIENT.match(place.client):
        return _CLIENTS[found["client"]]
    return CONNECTOR if place.is_flow else WORKER if place.prefix else {**CONNECTOR, **WORKER}


def _is_common(name: str, scene: Scene) -> bool:
    """Whether a setting belongs to a connection."""
    return name in CLIENT_COMMON or scene.is_honoured(name, "cluster") or name.startswith(("sasl.", "ssl."))


def _is_clients(place: KeyParts) -> bool:
    """Whether the named client has a setting of that name; any client if none is named."""
    found = _CLIENT.match(place.client)
    tables = [_CLIENTS[found["client"]]] if found else _CLIENTS.values()
    return any(place.name in table for table in tables)


def _flow(scene: Scene) -> str:
    return str(scene.flows[0])
