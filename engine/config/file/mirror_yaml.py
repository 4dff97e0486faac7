"""Reads `mirror.yaml`: the keys of `mm2.properties` as a tree, with the same names and meanings.

    clusters:                               clusters = A,B
      A: {bootstrap.servers: "a1:9092"}     A.bootstrap.servers = a1:9092
      B: {bootstrap.servers: "b1:9092"}     B.bootstrap.servers = b1:9092
    flows:
      A->B:
        enabled: true                       A->B.enabled = true
        topics: [orders.*, clicks]          A->B.topics = orders.*,clicks
    replication.factor: 1                   replication.factor = 1

The names along a branch are joined by dots, so a key may be written whole or split at any of its dots. A list means
its values with commas between them. A value counts as it is written. Unquoted values that YAML 1.1 and 1.2 read
differently (`no`, `010`, `1_000`, `12:30`) are refused, and so is anything that would be lost silently.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from engine.base.errors import ConfigError
from engine.config.file.properties import LISTS_OF_PATTERNS, Properties, Property, Trap

_TRUTH = re.compile(r"y|yes|n|no|on|off", re.IGNORECASE)
_NOTHING = re.compile(r"~|null|", re.IGNORECASE)
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(
    r"[-+]?(?:0[0-9_]+|0o[0-7]+|0x[0-9a-fA-F_]+|0b[01_]+|[1-9][0-9_]*"
    r"|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?)"
)
"""Whole numbers of YAML 1.1 and 1.2 in every base, also 60; all readers agree about those that match `_DECIMAL`."""
_PLAIN_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map")}
_COUNT = re.compile(r"\{\d+,\d*\}")
_QUOTED = re.compile(r"(['\"])\w.+\1")
_MOST_DEPTH = 20
_SYNTAX = "check the indentation (spaces, no tabs), and put text with any of : # * & ! \\ { [ into single quotes"
_RIGHT_TRUTH = "put the word into quotes; where a key takes true or false, write one of these"
_RIGHT_NUMBER = "write decimal digits without a leading zero, or put the text into quotes"
_NO_ANCHORS = "write it out; settings for all clusters or flows go to the top level, as in mm2.properties"


def parse_yaml(text: str, file: str) -> Properties:
    """Read the tree of a `mirror.yaml` into properties. Raises ConfigError with line and key."""
    return _Tree(file).read(_root(text, file))


def _root(text: str, file: str) -> Any:
    try:
        root = yaml.compose(text, Loader=yaml.BaseLoader)  # makes nodes, constructs nothing
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        raise yaml_error(error, file) from None
    if root is None:
        raise ConfigError(file, 0, "clusters", "missing", "list the clusters: clusters: {A: {...}, B: {...}}")
    return root


def yaml_error(error: Exception, file: str) -> ConfigError:
    """Return the error of a text that is not YAML, from what the parser raised; it repeats nothing of the text."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        return ConfigError(file, mark.line + 1 if mark else 0, "YAML", _said(error), _SYNTAX)
    if isinstance(error, RecursionError):
        return ConfigError(file, 0, "YAML", "nested too deeply", "write keys with dots instead")
    # A character that YAML forbids, or an escape of one that does not exist (PyYAML: ValueError, OverflowError).
    return ConfigError(file, 0, "YAML", "a character that YAML does not allow", "write printable UTF-8")


def _said(error: Any) -> str:
    """Return the parser's message without its quotes from the file, which may be passwords."""
    return _QUOTED.sub("...", error.problem or "cannot be read")


class _Tree:
    def __init__(self, file: str) -> None:
        self._file = file
        self._entries: dict[str, Property] = {}
        self._traps: list[Trap] = []
        self._seen: set[int] = set()

    def read(self, root: Any) -> Properties:
        if not isinstance(root, yaml.MappingNode):
            raise self._error(root, "file", "not a tree of keys", "write KEY: VALUE lines, e.g. clusters: [A, B]")
        for name, key_node, node in self._pairs(root, ""):
            if name == "clusters" and isinstance(node, yaml.MappingNode):
                self._clusters(key_node, node)
            elif name == "flows":
                self._flows(node)
            else:
                self._take(name, key_node, node, 1)
        return Properties(self._file, self._entries, tuple(self._traps))

    def _clusters(self, key_node: Any, node: Any) -> None:
        """Read a tree with aliases as keys; the aliases are also the list `clusters`."""
        pairs = list(self._pairs(node, "clusters"))
        for alias, at, _ in pairs:
            if "," in alias:
                raise self._error(at, "clusters", f"alias {alias!r} contains a comma", "commas separate aliases")
        aliases = ",".join(alias for alias, _, _ in pairs)
        self._add("clusters", aliases, key_node, listed=True)
        for alias, at, settings in pairs:
            self._branch(alias, at, settings, f"{alias}: {{bootstrap.servers: 'host:9092'}}")

    def _flows(self, node: Any) -> None:
        if not isinstance(node, yaml.MappingNode):
            raise self._error(node, "flows", "not a tree of flows", "write flows: {A->B: {enabled: true}}")
        for flow, at, settings in self._pairs(node, "flows"):
            if "->" not in flow:
                raise self._error(at, "flows", f"{flow!r} is not a flow", "write SOURCE->TARGET, e.g. A->B")
            self._branch(flow, at, settings, f"{flow}: {{enabled: true}}")

    def _branch(self, name: str, at: Any, settings: Any, right: str) -> None:
        if not isinstance(settings, yaml.MappingNode):
            raise self._error(at, name, "has no settings below it", f"write them as a tree, e.g. {right}")
        self._take(name, at, settings, 1)

    def _take(self, key: str, at: Any, node: Any, depth: int) -> None:
        """Read the node of a key: a value, a list, or a tree."""
        if isinstance(node, yaml.MappingNode):
            if depth > _MOST_DEPTH:
                raise self._error(at, key, "nested too deeply", "write keys with dots instead")
            for name, below, value in self._pairs(node, key):
                self._take(f"{key}.{name}", below, value, depth + 1)
        elif isinstance(node, yaml.SequenceNode):
            self._plain(node, key)
            values = [self._item(key, item) for item in node.value]
            self._add(key, ",".join(values), at, listed=True)
        else:
            self._add(key, self._value(node, key), at)
            self._warn_of_count(key, node)
            self._warn_of_backslashes(key, node)

    def _pairs(self, node: Any, key: str) -> Iterator[tuple[str, Any, Any]]:
        self._plain(node, key)
        for key_node, value in node.value:
            where = key or "file"
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._error(key_node, where, "a key that is not a word", "write KEY: VALUE")
            if key_node.value == "<<":
                raise self._error(key_node, where, "merge keys are not supported", _NO_ANCHORS)
            yield self._value(key_node, where), key_node, value

    def _item(self, key: str, node: Any) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self._error(node, key, "a list with an item that is not a single value", "write [one, two]")
        value = self._value(node, key)
        if _COUNT.search(value):
            raise self._error(node, key, "the comma inside {m,n} splits the list", "write the repetition out")
        if "," in value:
            raise self._error(node, key, "an item that contains a comma", "write two items, split at the comma")
        self._warn_of_backslashes(key, node)
        return value

    def _value(self, node: Any, key: str) -> str:
        """Return a value as it is written; no error repeats it, because it may be a password."""
        self._plain(node, key)
        text: str = node.value
        if node.style is not None:
            return text
        if _NOTHING.fullmatch(text):
            raise self._error(
                node, key, "has no value", 'write a value, remove the key, or write "" for an empty value'
            )
        if _TRUTH.fullmatch(text):
            raise self._error(node, key, "a word that some YAML readers take for true or false", _RIGHT_TRUTH)
        if _NUMBER.fullmatch(text) and not _DECIMAL.fullmatch(text):
            raise self._error(node, key, "digits that some YAML readers take for another number", _RIGHT_NUMBER)
        return text

    def _plain(self, node: Any, key: str) -> None:
        """Refuse anchors and tags, which give a node another value than the written one."""
        if id(node) in self._seen:
            raise self._error(node, key, "used twice through an anchor", _NO_ANCHORS)
        self._seen.add(id(node))
        if node.tag not in _PLAIN_TAGS:
            raise self._error(
                node, key, "tags are not supported", "write the value without a tag; put text into quotes"
            )

    def _add(self, key: str, value: str, at: Any, *, listed: bool = False) -> None:
        if key in self._entries:
            line = self._entries[key].line
            raise self._error(at, key, f"set twice, first in line {line}", "keep one of the two")
        self._entries[key] = Property(key, value, _line(at), listed)

    def _warn_of_count(self, key: str, node: Any) -> None:
        if key.endswith(LISTS_OF_PATTERNS) and _COUNT.search(node.value):
            what = "the comma inside {m,n} splits the list; write the repetition out"
            self._traps.append(Trap(_line(node), key, what))

    def _warn_of_backslashes(self, key: str, node: Any) -> None:
        if key.endswith(LISTS_OF_PATTERNS) and "\\\\" in node.value:
            what = "two backslashes stay two here, unlike in a .properties file; write one to escape a character"
            self._traps.append(Trap(_line(node), key, what))

    def _error(self, node: Any, key: str, wrong: str, right: str) -> ConfigError:
        return ConfigError(self._file, _line(node), key, wrong, right)


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1
