"""Encodes and decodes requests about configs and ACLs, in the classic format (texts have two-byte lengths).

DescribeConfigs v1 (brokers from 1.1 on), IncrementalAlterConfigs v0 (2.3; KIP-339), AlterConfigs v0 (0.11; KIP-133),
DescribeAcls, CreateAcls and DeleteAcls v1 (2.0; KIP-290). A cluster with thousands of topics answers with a hundred
thousand config entries, most of them equal. So equal entries share one object, and so do topics whose configs are equal
byte by byte.
"""

import struct
from collections.abc import Mapping, Sequence

import msgspec

from policies.sync.acl_sync import Binding
from policies.sync.topic_configs import ConfigEntry

DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS, ALTER_CONFIGS = (32, 1), (44, 0), (33, 0)
DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = (29, 1), (30, 1), (31, 1)
"""Key and version of each request."""
_SET, _DELETE = 0, 1
_ANY = 1
_I16, _I32 = struct.Struct(">h"), struct.Struct(">i")
_CODE_AND_NAME = struct.Struct(">bh")
_THROTTLE_BYTES = 4
_WHOLE = 8
"""How many different sets of topic configs to remember: most topics share one of a few sets."""


class Described(msgspec.Struct):
    """One topic of an answer: its configs (shared between topics, never changed), or the error."""

    topic: str
    configs: dict[str, ConfigEntry]
    error_code: int
    message: str


def _text(value: str | None) -> bytes:
    if value is None:
        return _I16.pack(-1)
    data = value.encode()
    return _I16.pack(len(data)) + data


def describe_configs(topics: Mapping[str, tuple[str, ...] | None]) -> bytes:
    """Ask for configs of topics, all (None) or some by name, without synonyms. An empty tuple also means all."""
    encoded: dict[tuple[str, ...] | None, bytes] = {None: _I32.pack(-1)}
    parts = [_I32.pack(len(topics))]
    for topic, names in topics.items():
        asked = encoded.get(names)
        if asked is None:
            asked = encoded[names] = _I32.pack(len(names or ())) + b"".join(map(_text, names or ()))
        parts += [b"\x02", _text(topic), asked]
    return b"".join([*parts, b"\x00"])


def alter_configs(topics: Mapping[str, Mapping[str, str | None]]) -> bytes:
    """Set configs of topics; None removes a config."""
    parts = [_I32.pack(len(topics))]
    for topic, configs in topics.items():
        parts += [b"\x02", _text(topic), _I32.pack(len(configs))]
        for name, value in configs.items():
            parts += [_text(name), bytes([_DELETE if value is None else _SET]), _text(value)]
    return b"".join([*parts, b"\x00"])


def replace_configs(topics: Mapping[str, Mapping[str, str]]) -> bytes:
    """Set all configs of topics; a config that is not named is removed (AlterConfigs)."""
    parts = [_I32.pack(len(topics))]
    for topic, configs in topics.items():
        parts += [b"\x02", _text(topic), _I32.pack(len(configs))]
        for name, value in configs.items():
            parts += [_text(name), _text(value)]
    return b"".join([*parts, b"\x00"])


def describe_acls(resource: int) -> bytes:
    """Ask for all bindings of one type of resource, whatever their pattern."""
    return struct.pack(">b", resource) + _text(None) + bytes([_ANY]) + _text(None) + _text(None) + bytes([_ANY, _ANY])


def create_acls(bindings: Sequence[Binding]) -> bytes:
    """Add bindings."""
    parts = [_I32.pack(len(bindings))]
    for one in bindings:
        parts += [_CODE_AND_NAME.pack(one.resource, len(one.name.encode())), one.name.encode()]
        parts += [struct.pack(">b", one.pattern), _text(one.principal), _text(one.host)]
        parts += [struct.pack(">bb", one.operation, one.permission)]
    return b"".join(parts)


def delete_acls(bindings: Sequence[Binding]) -> bytes:
    """Remove bindings: a filter for each, which matches it and no other."""
    parts = [_I32.pack(len(bindings))]
    for one in bindings:
        parts += [struct.pack(">b", one.resource), _text(one.name), struct.pack(">b", one.pattern)]
        parts += [_text(one.principal), _text(one.host), struct.pack(">bb", one.operation, one.permission)]
    return b"".join(parts)


class _AnswerReader:
    """Reads an answer once, in order. Raises IndexError or struct.error if it is cut short."""

    def __init__(self, body: bytes, at: int) -> None:
        self.body, self.at = body, at

    def i8(self) -> int:
        (value,) = struct.unpack_from(">b", self.body, self.at)
        self.at += 1
        return int(value)

    def i16(self) -> int:
        (value,) = _I16.unpack_from(self.body, self.at)
        self.at += 2
        return int(value)

    def count(self) -> range:
        (value,) = _I32.unpack_from(self.body, self.at)
        self.at += 4
        return range(value)

    def text(self) -> str:
        """Read a text; null becomes an empty text."""
        size = max(0, self.i16())
        self.at += size
        if self.at > len(self.body):
            raise IndexError("a text that is cut short")
        return self.body[self.at - size : self.at].decode()

    def binding(self) -> Binding:
        """Read a binding whose fields all follow each other."""
        resource, name, pattern = self.i8(), self.text(), self.i8()
        principal, host = self.text(), self.text()
        return Binding(resource, name, pattern, principal, host, self.i8(), self.i8())


class ConfigsReader:
    """Reads answers to DescribeConfigs."""

    def __init__(self) -> None:
        self._met: dict[bytes, tuple[str, ConfigEntry]] = {}
        self._met_whole: list[tuple[bytes, dict[str, ConfigEntry]]] = []
        """The sets of topic configs that were read last, as bytes and decoded, the newest first."""

    def read(self, body: bytes) -> list[Described]:
        """Read the answer after its correlation id. Raises IndexError or struct.error if it is cut short."""
        reader = _AnswerReader(body, _THROTTLE_BYTES)
        return [self._topic(reader) for _ in reader.count()]

    def _topic(self, reader: _AnswerReader) -> Described:
        code, message = reader.i16(), reader.text()
        reader.at += 1  # the resource type: only topics are requested
        topic, body, began = reader.text(), reader.body, reader.at
        for place, (whole, configs) in enumerate(self._met_whole):
            if body.startswith(whole, began):
                reader.at = began + len(whole)
                if place:
                    self._met_whole.insert(0, self._met_whole.pop(place))
                return Described(topic, configs, code, message)
        configs = self._configs(reader)
        self._met_whole.insert(0, (body[began : reader.at], configs))
        del self._met_whole[_WHOLE:]
        return Described(topic, configs, code, message)

    def _configs(self, reader: _AnswerReader) -> dict[str, ConfigEntry]:
        count, body, at = len(reader.count()), reader.body, reader.at
        configs: dict[str, ConfigEntry] = {}
        met = self._met
        for _ in range(count):
            end = at + 2 + _I16.unpack_from(body, at)[0]
            end += 2 + max(0, _I16.unpack_from(body, end)[0]) + 3
            raw = body[at:end]
            known = met.get(raw)
            if known is None:
                known = met[raw] = _entry(raw)
            configs[known[0]] = known[1]
            at = end
            if body[at : at + 4] == b"\0\0\0\0":  # no synonyms, because none were requested
                at += 4
            else:
                at = _skip_synonyms(body, at)
        reader.at = at
        return configs


def _entry(raw: bytes) -> tuple[str, ConfigEntry]:
    reader = _AnswerReader(raw, 0)
    name, value, read_only, source, sensitive = reader.text(), reader.text(), reader.i8(), reader.i8(), reader.i8()
    return name, ConfigEntry(value, source, bool(read_only), bool(sensitive))


def _skip_synonyms(body: bytes, at: int) -> int:
    reader = _AnswerReader(body, at)
    for _ in reader.count():
        reader.text()
        reader.text()
        reader.i8()
    return reader.at


def read_altered(body: bytes) -> dict[str, tuple[int, str]]:
    """Read the answer to IncrementalAlterConfigs or AlterConfigs: error code and the broker's message by topic."""
    reader = _AnswerReader(body, _THROTTLE_BYTES)
    found: dict[str, tuple[int, str]] = {}
    for _ in reader.count():
        code, message, _resource = reader.i16(), reader.text(), reader.i8()
        found[reader.text()] = code, message
    return found


def read_acls(body: bytes) -> tuple[int, str, set[Binding]]:
    """Read the answer to DescribeAcls: error code, the broker's message, bindings."""
    reader = _AnswerReader(body, _THROTTLE_BYTES)
    code, message = reader.i16(), reader.text()
    found: set[Binding] = set()
    for _ in reader.count():
        resource, name, pattern = reader.i8(), reader.text(), reader.i8()
        for _ in reader.count():
            principal, host = reader.text(), reader.text()
            found.add(Binding(resource, name, pattern, principal, host, reader.i8(), reader.i8()))
    return code, message, found


def read_created(body: bytes) -> list[tuple[int, str]]:
    """Read the answer to CreateAcls: error code and the broker's message, in the order of the request."""
    reader = _AnswerReader(body, _THROTTLE_BYTES)
    return [(reader.i16(), reader.text()) for _ in reader.count()]


def read_deleted(body: bytes) -> list[tuple[int, str]]:
    """Read the answer to DeleteAcls: error code and the broker's message, in the order of the request.

    A filter that matches nothing is no error. A match that could not be removed gives its filter an error.
    """
    reader = _AnswerReader(body, _THROTTLE_BYTES)
    found: list[tuple[int, str]] = []
    for _ in reader.count():
        answers = [(reader.i16(), reader.text())]
        for _ in reader.count():
            answers.append((reader.i16(), reader.text()))
            reader.binding()
        found.append(next((one for one in answers if one[0]), answers[0]))
    return found
