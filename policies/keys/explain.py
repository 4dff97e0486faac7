"""Explains one key of a file: what it does, its value for each flow or cluster, and which line gives that value."""

import re
from collections.abc import Iterator, Mapping
from itertools import permutations

import msgspec

from policies.keys.likeness import nearest
from policies.keys.places import LOGINS, SIDES, agree, client_keys, login_places, places
from policies.keys.read_key import PLACES, ReadKey
from policies.keys.table import KAFKA_TABLES, READ_KEYS, KeyAnswer, answer_of
from policies.keys.unread_keys import KeyParts, Scene, judge
from policies.model import FlowName

MIRROR = "the mirror"
LOGIN = "login"
"""The level of keys that a cluster has, and each of its clients may have."""
NAME = "NAME"
"""The part of a row's name that stands for any name."""


class KeyValue(msgspec.Struct, frozen=True):
    """The value of a key for a flow, a cluster or the mirror; without `key` nothing sets it, and `line` is 0."""

    of: str
    value: str
    key: str = ""
    line: int = 0


class KeyExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be said about a key. `answer`: a value of KeyAnswer; empty for a key that nobody knows.

    `places`: where it may be set, strongest first. `why`: of a key that is not read. `meant`: a known key that looks
    like it.
    """

    key: str
    answer: str
    meaning: str = ""
    differs: str = ""
    default: str = ""
    places: tuple[str, ...] = ()
    values: tuple[KeyValue, ...] = ()
    why: str = ""
    meant: str = ""


class File(msgspec.Struct, frozen=True):
    """What a file says: (value, line) by key, the aliases of its clusters, and its flows."""

    entries: Mapping[str, tuple[str, int]]
    aliases: tuple[str, ...]
    flows: tuple[FlowName, ...]

    @property
    def scene(self) -> Scene:
        """The file as the judge of its keys sees it."""
        honoured = {level: frozenset(row.name for row in READ_KEYS if level in row.each_level) for level in PLACES}
        return Scene(
            aliases=self.aliases,
            flows=self.flows,
            values={key: value for key, (value, _) in self.entries.items()},
            honoured=honoured,
            asked=frozenset(place for row in READ_KEYS for place in self.all_places(row)),
        )

    def all_places(self, row: ReadKey) -> Iterator[str]:
        """Yield every key that may set a row for a cluster, a flow or one of its clients."""
        yield from (key for _, keys in self.subjects(row) for key in keys)
        if LOGIN in row.each_level:
            yield from (key for _, own, _ in self._logins(row) for key in own)

    def subjects(self, row: ReadKey) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield whatever has a value of a key of its own, with the keys that may set it, strongest first."""
        for level in row.each_level:
            if level == "top":
                yield MIRROR, (row.name,)
            elif level == "cluster":
                yield from ((alias, (f"{alias}.{row.name}", row.name)) for alias in self.aliases)
            elif level == LOGIN:
                for alias in self.aliases:
                    yield alias, (f"{alias}.{row.name}", row.name, *self._agreed(alias, row.name))
                yield from self._own_logins(row)
            else:
                yield from self._of_flows(row, level)

    def _agreed(self, alias: str, name: str) -> tuple[str, ...]:
        """Return the keys of a cluster's three clients if all of them have the same value: it is the cluster's then."""
        keys = client_keys(alias, name)
        return keys if agree(self.entries[key][0] if key in self.entries else None for key in keys) else ()

    def _own_logins(self, row: ReadKey) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the clients for which the file has a setting other than that of their cluster."""
        agreed = {key for alias in self.aliases for key in self._agreed(alias, row.name)}
        for of, own, keys in self._logins(row):
            setter = next((key for key in keys if key in self.entries), None)
            if setter in own and setter not in agreed:
                yield of, keys

    def _logins(self, row: ReadKey) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
        """Yield each client of a flow: what it is, its own keys, and all keys that may set the row for it."""
        for flow in self.flows:
            for client, (side, *_) in LOGINS.items():
                above, below = login_places(client, row.name, flow)
                alias = flow.source if side == "A" else flow.target
                yield f"{flow}, {client}", (*above, *below), (*above, f"{alias}.{row.name}", row.name, *below)

    def _of_flows(self, row: ReadKey, level: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        several = len(row.each_level) > 1
        for flow in self.flows:
            if level == "admin":
                yield from ((f"{flow}, admin, {side}", places(level, row.name, flow, side)) for side in SIDES)
            else:
                yield f"{flow}, {level}" if several else str(flow), places(level, row.name, flow)


def explain(key: str, file: File) -> KeyExplanation:
    """Explain a key, which may have the alias of a cluster, a flow or a client before its name, or nothing."""
    scene = file.scene
    parts = scene.take_apart(key)
    if (row := _row_of(parts)) is not None and (not parts.prefix or _is_place(key, row, file)):
        return _explain_read(key, parts, row, file)
    if key in file.entries:
        ruling = judge(key, scene)
        return KeyExplanation(key=key, answer=answer_of(ruling).value, why=ruling.sentence)
    if row is not None:
        return KeyExplanation(key=key, answer="", why=f"not read here; it may be set as {', '.join(_places(row))}")
    return _explain_unread(key, parts)


def _row_of(parts: KeyParts) -> ReadKey | None:
    """Return the row of a key that is read: by its whole name, as a setting of its client, or of every connection."""
    for row in READ_KEYS:
        if _is_named(row, parts.whole) and not (parts.client and _is_of_clients(row)):
            return row
    client = _client_of(parts)
    levels = {client, LOGIN if client else client}
    return next((row for row in READ_KEYS if row.name == parts.name and not levels.isdisjoint(row.each_level)), None)


def _client_of(parts: KeyParts) -> str:
    """Return the client that a key names: consumer, producer, admin, or none."""
    return parts.client.removesuffix("override.").rstrip(".").rpartition(".")[2]


def _is_named(row: ReadKey, name: str) -> bool:
    return row.name == name or (
        NAME in row.name and re.fullmatch(re.escape(row.name).replace(NAME, r"[^.]+"), name) is not None
    )


def _is_of_clients(row: ReadKey) -> bool:
    return not {"consumer", "producer", "admin"}.isdisjoint(row.each_level)


def _is_place(key: str, row: ReadKey, file: File) -> bool:
    """Whether a row is looked for under a key, for any two clusters of the file."""
    pairs = [FlowName(*pair) for pair in permutations(file.aliases, 2)]
    everywhere = msgspec.structs.replace(file, flows=tuple(pairs))
    return key in set(everywhere.all_places(row))


def _explain_read(key: str, parts: KeyParts, row: ReadKey, file: File) -> KeyExplanation:
    answer = KeyAnswer.READ_OTHERWISE if row.differs else KeyAnswer.READ
    values = tuple(_values(key, parts, row, file))
    return KeyExplanation(
        key=key,
        answer=answer.value,
        meaning=row.meaning,
        differs=row.differs,
        default=row.default,
        places=_places(row, _client_of(parts)),
        values=values,
        why="" if values else "no enabled flow uses it",
    )


def _places(row: ReadKey, client: str = "") -> tuple[str, ...]:
    """Return the places of a row, strongest first; of one client only, if one is named."""
    if client and LOGIN in row.each_level:
        own = [one for name, (_, *one) in LOGINS.items() if name.endswith(client)]
        return tuple(place.removesuffix("key") + row.name for above, below in own for place in (*above, *below))
    levels = [level for level in row.each_level if client in ("", level)] or row.each_level
    return tuple(dict.fromkeys(place.removesuffix("key") + row.name for level in levels for place in PLACES[level]))


def _values(key: str, parts: KeyParts, row: ReadKey, file: File) -> Iterator[KeyValue]:
    """Yield the values that a key concerns: all of its row, or those for which the given key is a place."""
    name = parts.whole if NAME in row.name else row.name
    for of, keys in file.subjects(msgspec.structs.replace(row, name=name)):
        if (parts.prefix or parts.client) and key not in keys:
            continue
        setter = next((one for one in keys if one in file.entries), "")
        value, line = file.entries.get(setter, ("", 0))
        yield KeyValue(of, value.strip(), setter, line) if setter else KeyValue(of, row.default.strip("`"))


def _explain_unread(key: str, parts: KeyParts) -> KeyExplanation:
    client = _client_of(parts)
    own = [table for table in KAFKA_TABLES if client in table.levels] or KAFKA_TABLES
    for name, tables in ((parts.whole, KAFKA_TABLES), (parts.name, own)):
        for table in tables:
            if (found := table.answer(name)) is not None:
                return KeyExplanation(key=key, answer=found[0].value, why=found[1])
    meant = nearest(parts.name, {row.name for row in READ_KEYS}) or ""
    return KeyExplanation(key=key, answer="", why="not a key of MM2, Kafka's clients or raymirror", meant=meant)
