"""Collects every error of a configuration file, not only the first.

The file is read again after each error. Before that, the wrong setting is repaired as far as the rest needs it: it is
left out, so that its default holds, or gets the value that was most likely meant. An error that only follows from a
repaired setting does not count (`ConfigError.depends`). If the aliases of the clusters cannot be read, reading ends.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from engine.base.errors import ANY, ConfigError, ConfigErrors
from engine.config.file.properties import Properties, Property, split_setting
from engine.config.secrets import SECURITY_KEYS

T = TypeVar("T")
MOST = 100
"""At most this many errors of one file are reported."""
_SERVERS = "bootstrap.servers"
_ANYWHERE = "127.0.0.1:1"
"""The address that stands in for a cluster whose addresses cannot be read."""
_ALL_DEPENDS = ("config.providers", "YAML", "file")


def read_on(
    properties: Properties, first: ConfigError, read: Callable[[Properties], T]
) -> tuple[ConfigError, T | None]:
    """Return all errors of a file as one (`first` itself if it is alone), and what `read` returns for the rest.

    The rest is None if it cannot be read without the wrong settings.
    """
    rest: T | None = None
    found = list(parts(first))
    wrong = {one.key for one in found}
    error = first
    while len(found) < MOST:
        changed = _mended(properties, error)
        if changed is None:
            break
        properties = changed
        try:
            rest = read(properties)
            break
        except ConfigError as next_one:
            error = next_one
        if all(one.key in wrong for one in parts(error)):
            break
        found += [one for one in parts(error) if not _follows(one, wrong) and one.key not in wrong]
        wrong |= {one.key for one in parts(error)}
    found.sort(key=lambda one: one.line)
    return found[0] if len(found) == 1 else ConfigErrors(*found), rest


def parts(error: ConfigError) -> tuple[ConfigError, ...]:
    """Return the single errors of an error."""
    return error.errors if isinstance(error, ConfigErrors) else (error,)


def _follows(error: ConfigError, wrong: Iterable[str]) -> bool:
    """Whether an error only follows from another setting that is wrong."""
    return any(part == ANY or part in key for key in wrong for part in error.depends)


def _mended(properties: Properties, error: ConfigError) -> Properties | None:
    """Return the file with the wrong settings repaired; None if the rest cannot be read without them."""
    entries = dict(properties.entries)
    for one in {one.key: one for one in parts(error)}.values():
        if one.key.startswith(_ALL_DEPENDS) or not _mend(entries, one, properties):
            return None
    return msgspec.structs.replace(properties, entries=entries)


def _mend(entries: dict[str, Property], error: ConfigError, properties: Properties) -> bool:
    key, there = error.key, entries.get(error.key)
    if key == _SERVERS or key.endswith(f".{_SERVERS}"):
        entries[key] = Property(key, _ANYWHERE, error.line)
        return True
    if any(key == name or key.endswith(f".{name}") for name in SECURITY_KEYS):
        return _without_security(entries, key)
    if key == "clusters":
        return _with_a_flow(entries, error)
    if there is None:
        return False
    if (
        key.endswith(".enabled")
        and set(key.removesuffix(".enabled").split("->")) <= _aliases(entries).keys()
        and (
            there.value != "true"  # else something else is wrong with it
        )
    ):
        entries[key] = msgspec.structs.replace(there, value="true", listed=False)
        return True
    del entries[key]
    if there.value.startswith("->"):
        for meant in _spaced(there, properties):
            entries.setdefault(meant.key, meant)
    return True


def _spaced(there: Property, properties: Properties) -> Iterator[Property]:
    """Yield the settings that were meant by all lines with a space after the alias."""
    for one in (there, *(lost for lost in properties.lost if lost.key == there.key)):
        if one.value.startswith("->"):
            key, value = split_setting(f"{one.key}{one.value}")
            yield Property(key, value, one.line)


def _without_security(entries: dict[str, Property], key: str) -> bool:
    """Remove all security settings at the level of a key; at every level if the key itself is not set."""
    name = max((one for one in SECURITY_KEYS if key == one or key.endswith(f".{one}")), key=len)
    level = key.removesuffix(name)
    gone = [f"{level}{one}" for one in SECURITY_KEYS if f"{level}{one}" in entries]
    if key not in entries:
        gone = [one for one in entries if any(one == name or one.endswith(f".{name}") for name in SECURITY_KEYS)]
    for one in gone:
        del entries[one]
    return bool(gone)


def _with_a_flow(entries: dict[str, Property], error: ConfigError) -> bool:
    """Enable a flow, the example in the error text, if the error is that no flow is enabled."""
    aliases = list(_aliases(entries))
    if not error.depends or len(aliases) < 2:
        return False
    key = f"{aliases[0]}->{aliases[1]}.enabled"
    entries[key] = Property(key, "true", 0)
    return True


def _aliases(entries: dict[str, Property]) -> dict[str, None]:
    """Return the aliases of the clusters, in their order."""
    text = entries["clusters"].value if "clusters" in entries else ""
    return dict.fromkeys(part.strip() for part in text.split(",") if part.strip())
