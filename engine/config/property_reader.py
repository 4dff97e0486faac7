"""Typed reading of properties: every key that is asked for counts as honoured, every bad value names its line."""

import re
from collections.abc import Iterable, Iterator

from engine.base.errors import ConfigError
from engine.config.file.properties import Properties, Property, Trap
from engine.config.file.providers import Providers, Where, kind_of
from engine.config.settings import ConfigWarning
from policies.files.meant import has_quotes, is_quoted, unquoted, without_stars
from policies.naming import PACKAGE
from policies.patterns import BadPattern, PatternList

_NUMBER = re.compile(r"[+-]?[0-9]+")
_MOST_INT = 2**31 - 1
SWITCH = "raymirror.unsupported"
"""Whether what is not supported and matters is refused."""
_QUOTED = "quotes are part of the value; remove them"


class PropertyReader:
    """Reads a parsed file; raises ConfigError from every method that converts."""

    def __init__(self, properties: Properties) -> None:
        self.file = properties.file
        self.traps: tuple[Trap, ...] = (*properties.traps, *_quoted(properties))
        self.warnings: list[ConfigWarning] = []
        self.notes: list[ConfigWarning] = []
        self._properties = properties
        self._read: set[str] = set()
        self.providers = Providers()
        self.providers = Providers(dict(map(self._provider, self.list("config.providers"))))

    def names(self) -> list[str]:
        """Return all keys, in the order of the file."""
        return list(self._properties.entries)

    def values(self) -> dict[str, str]:
        """Return all values as they stand in the file: some may be secrets, so they go into no text."""
        return {key: entry.value for key, entry in self._properties.entries.items()}

    def entry(self, key: str) -> Property:
        """Return a setting as it stands in the file. Raises KeyError."""
        return self._properties.entries[key]

    def lost(self, key: str) -> list[Property]:
        """Return the former values of a key that is set again."""
        return [one for one in self._properties.lost if one.key == key]

    def read_keys(self) -> set[str]:
        """Return every key that was asked for, set or not."""
        return set(self._read)

    def unread(self) -> list[str]:
        """Return the keys nobody asked for."""
        return [key for key in self._properties.entries if key not in self._read]

    def error(self, key: str, wrong: str, right: str) -> ConfigError:
        """Make the error of a key; what a placeholder stands for may be a secret, so it is not repeated."""
        if self._has_placeholder(key):
            wrong = "what its placeholder stands for cannot be used"
        elif is_quoted((self._properties.get(key) or "").strip()):
            right = f"{_QUOTED}: {right}"
        return self.where(key).error(wrong, right)

    def is_tolerant(self) -> bool:
        """Return whether what is not supported is a warning only. Raises ConfigError."""
        return self.choice(SWITCH, ("refuse", "warn")) == "warn"

    def refuse_unsupported(self, key: str, wrong: str, right: str) -> None:
        """Refuse, or warn of, a value that is not supported and matters. Raises ConfigError."""
        if not self.is_tolerant():
            tolerate = f"{right}; or set {SWITCH} = warn, which goes on without it"
            raise self.error(key, wrong, tolerate).dependent(SWITCH)
        self.warn(key, f"{wrong}, and goes unused; {right}")

    def refuse_custom_class(self, key: str, default: str, instead: str) -> None:
        """Refuse, or warn of, another class than MM2's default one, by its short or full name. Raises ConfigError."""
        name = self.text(key, default)
        if name.removeprefix(PACKAGE) != default:
            right = f"use {default}, with {instead}; custom Java classes cannot run here"
            self.refuse_unsupported(key, f"unknown filter {name!r}", right)

    def _bad_pattern(self, key: str, bad: BadPattern) -> ConfigError:
        """Make the error of a pattern that cannot be used, with what was meant where it is a file name's pattern."""
        meant, right = without_stars(bad.pattern), "give Java regular expressions that match whole names"
        known = meant != bad.pattern and not self._has_placeholder(key)
        return self.error(key, str(bad), f"{right}, e.g. {meant}" if known else right)

    def warn(self, key: str, what: str) -> None:
        """Warn of something about a key, once."""
        if self._has_placeholder(key):
            what = "what its placeholder stands for is not what is used here"
        warning = ConfigWarning(self._properties.line(key), key, what)
        if warning not in self.warnings:  # a top-level key is read once for every flow
            self.warnings.append(warning)

    def note(self, key: str, what: str) -> None:
        """Note a difference from MM2 that is no fault of the file, once."""
        note = ConfigWarning(self._properties.line(key), key, what)
        if note not in self.notes:
            self.notes.append(note)

    def first_key(self, *keys: str) -> str | None:
        """Return the first of some keys that is set; all of them count as honoured."""
        self._read.update(keys)
        return next((key for key in keys if key in self._properties.entries), None)

    def has(self, key: str) -> bool:
        """Whether a key is set."""
        return key in self._properties.entries

    def is_plain(self, key: str) -> bool:
        """Whether a key is set, to something that holds no placeholder and so may be repeated in a text."""
        return self.has(key) and not self._has_placeholder(key)

    def where(self, key: str) -> Where:
        """Return the place of a key."""
        return Where(self.file, self._properties.line(key), key)

    def raw(self, key: str) -> str | None:
        """Return a value untrimmed, placeholders resolved. Raises ConfigError."""
        self._read.add(key)
        value = self._properties.get(key)
        return None if value is None else self.providers.resolve(value, self.where(key))

    def text(self, key: str, default: str) -> str:
        """Return a trimmed value."""
        value = self._single(key)
        return default if value is None else value.strip()

    def list(self, key: str, default: Iterable[str] = (), required: str = "") -> list[str]:
        """Return a comma-separated list, trimmed; empty for an empty value."""
        value = self.raw(key)
        if value is None and required:
            raise self.error(key, "missing", required)
        if value is None:
            return list(default)
        found = [part.strip() for part in value.split(",") if part.strip()]
        if has_quotes(found):
            right = "remove them" if self._has_placeholder(key) else f"write {unquoted(found)}"
            raise self.where(key).error("quotes are part of the value, and no name or address has any", right)
        if required and not found:
            raise self.error(key, "empty", required)
        return found

    def number(self, key: str, default: int, least: int, most: int) -> int:
        """Return a whole number within bounds."""
        value = self._single(key)
        if value is None:
            return default
        text = value.strip()
        if not _NUMBER.fullmatch(text) or len(text) > 20:
            raise self.error(key, f"{text!r} is no number", f"give a whole number from {least} to {most}")
        number = int(text)
        if not least <= number <= most:
            raise self.error(key, f"{number} is out of range", f"give a number from {least} to {most}")
        return number

    def seconds(self, key: str, default: int, least: int = 1) -> float:
        """Return a whole number of seconds."""
        return float(self.number(key, default, least, _MOST_INT))

    def replicas(self, key: str, default: int) -> int:
        """Return a replication factor; -1: the broker's default."""
        found = self.number(key, default, -1, 32767)
        if found == 0 and self.has(key):
            raise self.error(key, "0 is out of range", "give a number from 1 to 32767, or -1: broker's default")
        return found

    def choice(self, key: str, choices: tuple[str, ...], *, any_case: bool = True) -> str:
        """Return one of some words; the first is the default."""
        found = self.text(key, choices[0])
        found = found.lower() if any_case else found
        if found not in choices:
            raise self.error(key, f"{found!r} is unknown", f"write {', '.join(choices[:-1])} or {choices[-1]}")
        return found

    def patterns(self, key: str, default: Iterable[str]) -> PatternList:
        """Return a list of patterns."""
        try:
            return PatternList(self.list(key, default))
        except BadPattern as bad:
            raise self._bad_pattern(key, bad) from None

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a boolean as Kafka reads one."""
        value = self.text(key, "true" if default else "false").lower()
        if value not in ("true", "false"):
            raise self.error(key, f"{value!r} is neither true nor false", "write true or false")
        return value == "true"

    def flow_enabled(self, flow: str) -> bool:
        """Return whether a flow is enabled.

        MM2 asks twice (MirrorMakerConfig.clusterPairs, MirrorConnectorConfig): a pair of clusters is looked at where
        its own `enabled` is true to the letter, or heartbeats are on; it is copied where `enabled`, trimmed, is true.
        """
        own = f"{flow}.enabled"
        key = self.first_key(own, "enabled")
        if key is None or not self.flag(key, default=False):
            return False
        if key == own and _is_true(self._properties.get(own)):
            return True
        beats = (self._properties.get(name) for name in (f"{flow}.emit.heartbeats.enabled", "emit.heartbeats.enabled"))
        enabled = _is_true(next((value for value in beats if value is not None), "true"))
        if key == own:
            self.warn(key, "white space behind true switches the flow off in MM2 where heartbeats are off; remove it")
        elif enabled:
            self.warn(key, f"at top level it switches on every pair of clusters, as in MM2; write {own} for one")
        return enabled

    def unresolved(self, key: str) -> str | None:
        """Return a value as it stands in the file: for secrets, which are resolved where they are used."""
        self._read.add(key)
        self._refuse_list(key)
        return self._properties.get(key)

    def _single(self, key: str) -> str | None:
        value = self.raw(key)
        self._refuse_list(key)
        return value

    def _refuse_list(self, key: str) -> None:
        entry = self._properties.entries.get(key)
        if entry is not None and entry.listed:
            raise self.error(key, "a list where one value is meant", "write the value without brackets or dashes")

    def _provider(self, name: str) -> tuple[str, str]:
        key = f"config.providers.{name}.class"
        return name, kind_of(self.text(key, ""), self.where(key))

    def _has_placeholder(self, key: str) -> bool:
        return "${" in (self._properties.get(key) or "")


def _quoted(properties: Properties) -> Iterator[Trap]:
    """Notice values in quotes, of which no text repeats any: they may be secrets."""
    for key, entry in properties.entries.items():
        if is_quoted(entry.value.strip()):
            yield Trap(entry.line, key, _QUOTED)


def _is_true(value: str | None) -> bool:
    """Whether a value is true to the letter, untrimmed (Java's Boolean.parseBoolean)."""
    return value is not None and value.lower() == "true"
