r"""Reads Java `.properties` exactly as MM2 reads them, and finds the traps that users fall into.

The encoding is ISO-8859-1 with `\uXXXX`. A backslash is an escape of the file, so the regex `foo\.bar` must be written
`foo\\.bar`. A comment begins a line and never ends one (java.util.Properties.load).
"""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from engine.base.errors import ConfigError

_KEY_END = re.compile(r"(?<!\\)(?:\\\\)*([=:]|[ \t\f])")
_UNICODE = re.compile(r"\\u[0-9a-fA-F]{4}")
_BROKEN_UNICODE = re.compile(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_INLINE_COMMENT = re.compile(r"(?:^|\s)#")
_LONE_BACKSLASH = re.compile(r"(?<!\\)(?:\\\\)*\\([^tnrfu\\=: \t#!\"])")
_SETTING = re.compile(r"([A-Za-z][\w>-]*(?:\.[\w>-]+)+)\s*=")
"""The start of a setting: a dotted key and `=`. Parts of patterns, addresses and logins do not match."""
_COUNT = re.compile(r"\{\d+,\d*\}")
LISTS_OF_PATTERNS = (
    "topics",
    "groups",
    ".exclude",
    "raymirror.start",
    "raymirror.source.gap",
    "raymirror.topic.recreated",
)


class Property(msgspec.Struct, frozen=True):
    """One key, its value and its first line. The value may be a secret, so no text of this class shows it."""

    key: str
    value: str
    line: int
    listed: bool = False
    """Whether the file has it as a list, which is wrong for a key that takes one value."""

    def __repr__(self) -> str:
        return f"Property({self.key!r}, line={self.line})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [("key", self.key), ("line", self.line)]


class Trap(msgspec.Struct, frozen=True):
    """Something in the file that Java probably reads differently than its author meant."""

    line: int
    key: str
    what: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.key}: {self.what}"


class Properties(msgspec.Struct, frozen=True):
    """A parsed file: the last value of every key, and its traps."""

    file: str
    entries: dict[str, Property]
    traps: tuple[Trap, ...]
    lost: tuple[Property, ...] = ()
    """Earlier values of keys that are set several times."""

    def get(self, key: str) -> str | None:
        """Return a value, None if the key is absent."""
        found = self.entries.get(key)
        return found.value if found else None

    def line(self, key: str) -> int:
        """Return the line of a key, 0 if it is absent."""
        found = self.entries.get(key)
        return found.line if found else 0


def load_properties(path: Path) -> Properties:
    """Read a file. Raises OSError, ConfigError."""
    return parse_properties(path.read_text(encoding="iso-8859-1"), str(path))


def parse_properties(text: str, file: str) -> Properties:
    """Parse the text of a `.properties` file. Raises ConfigError for a broken Unicode escape, as Java refuses one."""
    entries: dict[str, Property] = {}
    traps: list[Trap] = []
    lost: list[Property] = []
    for number, line, joined in _logical_lines(text):
        raw_key, raw_value = split_setting(line)
        if _BROKEN_UNICODE.search(line):
            right = "write four hex digits after \\u, or two backslashes"
            raise ConfigError(file, number, _unescape(raw_key), "a \\u without four hex digits", right)
        key, value = _unescape(raw_key), _unescape(raw_value)
        if key in entries:
            lost.append(entries[key])
            traps.append(Trap(number, key, f"set twice; the value of line {entries[key].line} is lost"))
        entries[key] = Property(key, value, number)
        traps += [Trap(number, key, what) for what in _traps(key, raw_value, value)]
        traps += [Trap(number, key, what) for what in _swallowed(joined)]
    return Properties(file, entries, tuple(traps), tuple(lost))


def _logical_lines(text: str) -> Iterator[tuple[int, str, list[tuple[int, str]]]]:
    """Yield lines with continuations joined, without comments and blanks, with the number of their first line.

    The third value lists the continuation lines of each, with their numbers.
    """
    held, start = "", 0
    joined: list[tuple[int, str]] = []
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        stripped = line.lstrip(" \t\f")
        if not held and (not stripped or stripped[0] in "#!"):
            continue
        start, joined = (start, [*joined, (number, stripped)]) if held else (number, [])
        backslashes = len(stripped) - len(stripped.rstrip("\\"))
        if backslashes % 2:
            held += stripped[:-1]
            continue
        yield start, held + stripped, joined
        held = ""
    if held:
        yield start, held, joined


def _swallowed(joined: list[tuple[int, str]]) -> Iterator[str]:
    """Yield a text for each setting that a backslash joins to the value before it, without its value (a secret?)."""
    for number, line in joined:
        if setting := _SETTING.match(line):
            yield (
                f"the backslash at the end of line {number - 1} makes line {number} a part of the value, so"
                f" {setting[1]} is not set; remove the backslash"
            )


def split_setting(line: str) -> tuple[str, str]:
    """Split a line into its key and its value, both with their escapes."""
    found = _KEY_END.search(line)
    if found is None:
        return line, ""
    key, rest = line[: found.start(1)], line[found.start(1) :].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return key, rest


def key_of(line: str) -> str:
    """Return the key of a line whose continuations are joined."""
    return _unescape(split_setting(line)[0])


def _unescape(text: str) -> str:
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char != "\\" or at + 1 == len(text):
            out.append(char)
            at += 1
        elif _UNICODE.match(text, at):
            out.append(chr(int(text[at + 2 : at + 6], 16)))
            at += 6
        else:
            out.append(_ESCAPES.get(text[at + 1], text[at + 1]))
            at += 2
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _traps(key: str, raw: str, value: str) -> Iterator[str]:
    """Yield what Java reads differently than meant, without any part of the value, which may be a secret."""
    if _INLINE_COMMENT.search(value):
        yield "a # after a value is part of the value; put the comment on its own line"
    if _LONE_BACKSLASH.search(raw):
        yield "the file format drops a single backslash; write two backslashes to mean one"
    if key.endswith(LISTS_OF_PATTERNS) and _COUNT.search(value):
        yield "the comma inside {m,n} splits the list; write the repetition out"
