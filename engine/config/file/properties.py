r"""Java `.properties`, exactly as MM2's loader reads them, and the traps in them that users fall into.

Encoding ISO-8859-1 with `\uXXXX`; a backslash is an escape of the file, so the regex `foo\.bar` must be written
`foo\\.bar`; a comment begins a line, never ends one (java.util.Properties.load, mm2-contract 1.1).
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
"""How a setting begins: a dotted key and `=`. Parts of patterns, addresses and logins are not."""
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
    """One key with its value, which may be a secret and so is in no text of it, and the line it begins on."""

    key: str
    value: str
    line: int
    listed: bool = False
    """Whether it was written as a list, so that one value alone is not what its author meant."""

    def __repr__(self) -> str:
        return f"Property({self.key!r}, line={self.line})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [("key", self.key), ("line", self.line)]


class Trap(msgspec.Struct, frozen=True):
    """Something in the file that Java reads otherwise than its author meant, most likely."""

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
    """Former values of keys that are set again."""

    def get(self, key: str) -> str | None:
        """Return a value, None where the key is absent."""
        found = self.entries.get(key)
        return found.value if found else None

    def line(self, key: str) -> int:
        """Return the line of a key, 0 where it is absent."""
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
            right = "write four hex digits behind \\u, or two backslashes"
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
    """Name settings that a backslash before them made a part of another one's value; their values may be secrets."""
    for number, line in joined:
        if setting := _SETTING.match(line):
            yield (
                f"the backslash at the end of line {number - 1} makes line {number} a part of the value, and so"
                f" {setting[1]} is not set; remove the backslash"
            )


def split_setting(line: str) -> tuple[str, str]:
    """Split a line into its key and its value, both as they are written."""
    found = _KEY_END.search(line)
    if found is None:
        return line, ""
    key, rest = line[: found.start(1)], line[found.start(1) :].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return key, rest


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
    """Say what Java reads otherwise than meant; never a part of the value, which may be a secret."""
    if _INLINE_COMMENT.search(value):
        yield "a # behind a value is part of the value; put the comment on a line of its own"
    if _LONE_BACKSLASH.search(raw):
        yield "a single backslash is dropped by the file format; write two where one is meant"
    if key.endswith(LISTS_OF_PATTERNS) and _COUNT.search(value):
        yield "a comma inside {m,n} splits the list there; write the repetition out"
