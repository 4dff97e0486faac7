"""`raymirror check CONFIG --explain KEY`: what a key does, its value, and which line gives it; asks no cluster."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import msgspec

from engine.config.config import enabled_flows, read_properties
from engine.config.secrets import is_secret
from policies.keys.explain import File, KeyExplanation, KeyValue, explain

HIDDEN = "(hidden)"
_WIDTH = 80
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
_PAGE = "engine/CONFIG.md"


def explain_key(path: Path, key: str) -> KeyExplanation:
    """Explain a key of a file. Raises ConfigError if the file cannot be read, or names no clusters."""
    properties = read_properties(path)
    aliases, flows = enabled_flows(properties)
    entries = {name: (entry.value, entry.line) for name, entry in properties.entries.items()}
    found = explain(key, File(entries, tuple(aliases), tuple(flows)))
    return msgspec.structs.replace(found, values=tuple(map(_shown, found.values)))


def _shown(value: KeyValue) -> KeyValue:
    """Return a value without a possible password."""
    return msgspec.structs.replace(value, value=HIDDEN) if is_secret(value.key, value.value) else value


def lines_of(found: KeyExplanation) -> Iterator[str]:
    """Yield the explanation for a terminal."""
    yield f"{found.key}: {found.answer or 'unknown'}"
    differs = f"Not as in MM2: {found.differs}" if found.differs else ""
    for text in (found.why, found.meaning, differs):
        yield from _wrapped(text)
    if found.meant:
        yield from _wrapped(f"Did you mean {found.meant}?")
    if found.places:
        yield from _wrapped(f"Set as, the first one wins: {', '.join(found.places)}")
    if found.default:
        yield from _wrapped(f"Default: {found.default}")
    for value in found.values:
        yield f"  {value.of}: {value.value}{_origin(value)}"


def _origin(value: KeyValue) -> str:
    return f" (line {value.line}: {value.key})" if value.key else " (default)"


def _named(link: re.Match[str]) -> str:
    """Name what a link leads to, if it is a section of the keys' own page, which the terminal does not show."""
    text, to = link.groups()
    return f"{text}: {_PAGE}{to}" if to.startswith("#") else text


def _wrapped(markdown: str) -> list[str]:
    plain = _LINK.sub(_named, markdown).replace("`", "")
    return textwrap.wrap(
        plain, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
