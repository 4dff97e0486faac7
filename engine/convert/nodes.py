"""Reads JSON and YAML into trees that know the line of everything (RFC 8259; YAML 1.1 as Kubernetes reads it)."""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from engine.base.errors import ConfigError
from engine.config.file.mirror_yaml import yaml_error
from engine.convert.model import Given, Origin

_MOST_DEPTH = 40
_TOKEN = re.compile(r'[ \t\r\n]*("(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+)')
_NULL = re.compile(r"~|null|Null|NULL|")
_WORDS = {"yes": "true", "on": "true", "true": "true", "no": "false", "off": "false", "false": "false"}
_PLAIN_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map")}
_DEEP = "nested too deeply"
_FLATTER = "give a file that a tool has written"


class Leaf(msgspec.Struct, frozen=True):
    """A single value as text, with its line; None: null. It may be a secret, so its text never shows it."""

    text: str | None
    origin: Origin

    def __repr__(self) -> str:
        return f"Leaf({self.origin})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [("origin", str(self.origin))]


class Branch(msgspec.Struct, frozen=True):
    """Named parts. The origin of a part is the place of its name."""

    entries: dict[str, "Node"]
    origin: Origin

    def get(self, name: str) -> "Node | None":
        """Return a part, None if it is absent or null."""
        found = self.entries.get(name)
        return None if isinstance(found, Leaf) and found.text is None else found

    def at(self, name: str) -> Origin:
        """Return the place of a part, or where it is missing."""
        found = self.entries.get(name)
        return self.origin.below(name, self.origin.line) if found is None else found.origin

    def branch(self, name: str) -> "Branch":
        """Return a part that has parts; an empty one if it is absent. Raises ConfigError if it is something else."""
        found = self.get(name)
        if found is None:
            return Branch({}, self.at(name))
        if not isinstance(found, Branch):
            raise found.origin.error("not a tree of keys", "write KEY: VALUE lines below it")
        return found

    def branches(self, name: str) -> list["Branch"]:
        """Return the items of a list, each with parts; none if it is absent. Raises ConfigError."""
        found = self.get(name)
        if found is None:
            return []
        if not isinstance(found, Items):
            raise found.origin.error("not a list", "write a list of trees")
        for item in found.items:
            if not isinstance(item, Branch):
                raise item.origin.error("not a tree of keys", "write KEY: VALUE lines")
        return [item for item in found.items if isinstance(item, Branch)]

    def text(self, name: str) -> str | None:
        """Return a single value, None if it is absent. Raises ConfigError if it is a tree or a list."""
        found = self.get(name)
        if found is None or isinstance(found, Leaf):
            return None if found is None else found.text
        raise found.origin.error("not a single value", "write one value")

    def needed(self, name: str, right: str) -> Given:
        """Return a single value that must be there. Raises ConfigError."""
        found = self.text(name)
        if not found:
            raise self.at(name).error("missing" if found is None else "empty", right)
        return Given(found, self.at(name))

    def values(self) -> Iterator[tuple[str, Given]]:
        """Yield the single values; null means that a key is not set. Raises ConfigError for a tree or a list."""
        for name, found in self.entries.items():
            text = self.text(name)
            if text is not None:
                yield name, Given(text, found.origin)


class Items(msgspec.Struct, frozen=True):
    """A list."""

    items: tuple["Node", ...]
    origin: Origin


Node = Leaf | Branch | Items


def parse_json(text: str, file: str) -> Node:
    """Read a JSON text. Raises ConfigError with the line."""
    try:
        json.loads(text, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        raise ConfigError(file, error.lineno, "JSON", error.msg, "give the JSON as the tool wrote it") from None
    except RecursionError:
        raise ConfigError(file, 0, "JSON", _DEEP, _FLATTER) from None
    return _Json(text, file).read()


class _Json:
    """Reads the tokens of a text that is valid JSON."""

    def __init__(self, text: str, file: str) -> None:
        self._file = file
        self._tokens = self._cut(text)

    def read(self) -> Node:
        return self._node(*next(self._tokens), Origin(self._file, 1, ""), 0)

    def _cut(self, text: str) -> Iterator[tuple[str, int]]:
        line, before = 1, 0
        for found in _TOKEN.finditer(text):
            line += text.count("\n", before, found.start(1))
            before = found.start(1)
            yield found[1], line

    def _node(self, token: str, line: int, origin: Origin, depth: int) -> Node:
        if depth > _MOST_DEPTH:
            raise ConfigError(self._file, line, "JSON", _DEEP, _FLATTER)
        if token == "{":
            return Branch(self._entries(origin, depth), origin)
        if token == "[":
            return Items(tuple(self._items(origin, depth)), origin)
        return Leaf(_json_text(token), origin)

    def _entries(self, origin: Origin, depth: int) -> dict[str, Node]:
        """Read `KEY: VALUE` until `}`; of a key that is there twice the last value counts, as for Connect."""
        found: dict[str, Node] = {}
        token, line = next(self._tokens)
        while token != "}":
            if token == ",":
                token, line = next(self._tokens)
            name = _unescaped(token)
            next(self._tokens)  # the colon
            found[name] = self._node(*next(self._tokens), origin.below(name, line), depth + 1)
            token, line = next(self._tokens)
        return found

    def _items(self, origin: Origin, depth: int) -> Iterator[Node]:
        token, line = next(self._tokens)
        number = 0
        while token != "]":
            if token == ",":
                token, line = next(self._tokens)
            yield self._node(token, line, Origin(origin.file, line, f"{origin.key}[{number}]"), depth + 1)
            token, line = next(self._tokens)
            number += 1


def _json_text(token: str) -> str | None:
    if token == "null":
        return None
    return _unescaped(token) if token.startswith('"') else token


def _unescaped(token: str) -> str:
    """Return the text of a JSON string; half of a surrogate pair becomes U+FFFD, as Java writes it."""
    text: str = json.loads(token)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def parse_yaml_documents(text: str, file: str) -> list[Node]:
    """Read the documents of a YAML text; empty ones are left out. Raises ConfigError with the line."""
    try:
        roots = list(yaml.compose_all(text, Loader=yaml.BaseLoader))  # makes nodes, constructs nothing
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        raise yaml_error(error, file) from None
    reader = _Yaml(file)
    return [
        reader.node(root, Origin(file, _line(root), ""), 0)
        for root in roots
        if root is not None and not (isinstance(root, yaml.ScalarNode) and not root.value)
    ]


class _Yaml:
    def __init__(self, file: str) -> None:
        self._file = file
        self._open: set[int] = set()
        self._read: dict[int, Node] = {}
        """What anchors name is read once: a file of ten lines can name itself a billion times."""

    def node(self, node: Any, origin: Origin, depth: int) -> Node:
        """Return a node of PyYAML as a tree. Raises ConfigError."""
        if node.tag not in _PLAIN_TAGS:
            raise origin.error("tags are not supported", "write the value without a tag; put text into quotes")
        if depth > _MOST_DEPTH:
            raise origin.error(_DEEP, _FLATTER)
        if isinstance(node, yaml.ScalarNode):
            return Leaf(node.value if node.style else _plain(node.value), origin)
        if id(node) in self._open:
            raise origin.error("an anchor that contains itself", "write the value out")
        if id(node) not in self._read:
            self._open.add(id(node))
            self._read[id(node)] = self._whole(node, origin, depth)
            self._open.discard(id(node))
        return self._read[id(node)]

    def _whole(self, node: Any, origin: Origin, depth: int) -> Node:
        if isinstance(node, yaml.SequenceNode):
            places = [Origin(self._file, _line(item), f"{origin.key}[{at}]") for at, item in enumerate(node.value)]
            items = (self.node(item, place, depth + 1) for item, place in zip(node.value, places, strict=True))
            return Items(tuple(items), origin)
        entries: dict[str, Node] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise Origin(self._file, _line(key), origin.key or "YAML").error("a key that is no word", "write a key")
            at = origin.below(key.value, _line(key))
            if key.value == "<<":
                raise at.error("merge keys are not supported", "write the keys out")
            if key.value in entries:
                raise at.error("set twice", "keep one of the two")
            entries[key.value] = self.node(value, at, depth + 1)
        return Branch(entries, origin)


def _plain(text: str) -> str | None:
    """Return what an unquoted word means: null, a truth value, or itself."""
    if _NULL.fullmatch(text):
        return None
    return _WORDS.get(text.lower(), text)


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1
