"""Reads typed values of properties. Every key that is read counts as honoured; every error names its line."""

import re
from collections.abc import Iterable, Iterator, Mapping

from engine.base.errors import ConfigError
from engine.config.file.properties import Properties, Property, Trap
from engine.config.file.providers import Providers, Where, kind_of
from engine.config.secrets import is_secret
from engine.config.settings import ConfigWarning
from policies.files.meant import has_quotes, is_quoted, unquoted, without_stars
from policies.keys.kafka_keys import Ruling
from policies.patterns import BadPattern, PatternList

_NUMBER = re.compile(r"[+-]?[0-9]+")
_MOST_INT = 2**31 - 1
SWITCH = "raymirror.unsupported"
"""The key that decides whether raymirror refuses unsupported settings that matter."""
_BACKSLASH = "a backslash at the end of a line joins the next line to it"
_QUOTED = "quotes are part of the value; remove them"


class PropertyReader:
    """Reads a parsed file; raises ConfigError from every method that converts."""

    def __init__(self, properties: Properties) -> None:
        self.file = properties.file
        self.traps: tuple[Trap, ...] = (*properties.traps, *_quoted(properties))
        self.warnings: list[ConfigWarning] = []
        self.notes: list[ConfigWarning] = []
        self.rulings: dict[str, Ruling] = {}
        self._properties = properties
        self._read: set[str] = set()
        self.providers = Providers()
        self.providers = Providers(dict(map(self._provider, self.list("config.providers"))))

    def names(self) -> list[str]:
        """Return all keys, in the order of the file."""
        return list(self._properties.entries)

    def values(self) -> dict[str, str]:
        """Return all values as the file has them; some may be secrets, so never write them into a text."""
        return {key: entry.value for key, entry in self._properties.entries.items()}

    def entry(self, key: str) -> Property:
        """Return a setting as the file has it. Raises KeyError."""
        return self._properties.entries[key]

    def lost(self, key: str) -> list[Property]:
        """Return the earlier values of a key that is set several times."""
        return [one for one in self._properties.lost if one.key == key]

    def read_keys(self) -> set[str]:
        """Return every key that was read, set or not."""
        return set(self._read)

    def unread(self) -> list[str]:
        """Return the keys of the file that nothing has read."""
        return [key for key in self._properties.entries if key not in self._read]

    def error(self, key: str, wrong: str, right: str) -> ConfigError:
        """Return the error of a key; it does not repeat the value of a placeholder, which may be a secret."""
        if self._has_placeholder(key):
            wrong = "the value of its placeholder cannot be used"
        elif is_secret("", self._properties.get(key) or ""):
            wrong, right = "the value has a password or another setting in it", f"{right}; {_BACKSLASH}"
        elif is_quoted((self._properties.get(key) or "").strip()):
            right = f"{_QUOTED}: {right}"
        return self.where(key).error(wrong, right)

    def is_tolerant(self) -> bool:
        """Return whether an unsupported setting is only a warning. Raises ConfigError."""
        return self.choice(SWITCH, ("refuse", "warn")) == "warn"

    def refuse_unsupported(self, key: str, wrong: str, right: str) -> None:
        """Refuse an unsupported value that matters, or warn of it. Raises ConfigError."""
        if not self.is_tolerant():
            tolerate = f"{right}; or set {SWITCH} = warn to continue without it"
            raise self.error(key, wrong, tolerate).dependent(SWITCH)
        self.warn(key, f"{wrong}, which is not used; {right}")

    def _bad_pattern(self, key: str, bad: BadPattern) -> ConfigError:
        """Return the error of a bad pattern; for a file name pattern (`*.log`) it suggests the regular expression."""
        meant, right = without_stars(bad.pattern), "give Java regular expressions that match whole names"
        known = meant != bad.pattern and not self._has_placeholder(key)
        return self.error(key, str(bad), f"{right}, e.g. {meant}" if known else right)

    def warn(self, key: str, what: str) -> None:
        """Add a warning about a key, once."""
        if self._has_placeholder(key):
            what = "raymirror does not use the value of its placeholder as it is"
        warning = ConfigWarning(self._properties.line(key), key, what)
        if warning not in self.warnings:  # a top-level key is read once for every flow
            self.warnings.append(warning)

    def note(self, key: str, what: str) -> None:
        """Note a difference from MM2 that is not a fault of the file, once."""
        note = ConfigWarning(self._properties.line(key), key, what)
        if note not in self.notes:
            self.notes.append(note)

    def rule(self, rulings: Mapping[str, Ruling]) -> None:
        """Keep what becomes of each key that nothing has read."""
        self.rulings = dict(rulings)

    def first_key(self, *keys: str) -> str | None:
        """Return the first of some keys that is set; all of them count as honoured."""
        self._read.update(keys)
        return next((key for key in keys if key in self._properties.entries), None)

    def has(self, key: str) -> bool:
        """Whether a key is set."""
        return key in self._properties.entries

    def is_plain(self, key: str) -> bool:
        """Whether a key is set to a value without a placeholder, which a text may therefore repeat."""
        return self.has(key) and not self._has_placeholder(key)

    def where(self, key: str) -> Where:
        """Return the place of a key."""
        return Where(self.file, self._properties.line(key), key)

    def raw(self, key: str) -> str | None:
        """Return a value untrimmed, with its placeholders resolved. Raises ConfigError."""
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
            raise self.where(key).error("quotes are part of the value, but a name or address has none", right)
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
            raise self.error(key, f"{text!r} is not a number", f"give a whole number from {least} to {most}")
        number = int(text)
        if not least <= number <= most:
            raise self.error(key, f"{number} is out of range", f"give a number from {least} to {most}")
        return number

    def seconds(self, key: str, default: int, least: int = 1) -> float:
        """Return a whole number of seconds."""
        return float(self.number(key, default, least, _MOST_INT))

    def replicas(self, key: str, default: int) -> int:
        """Return a replication factor; -1 is the broker's default."""
        found = self.number(key, default, -1, 32767)
        if found == 0 and self.has(key):
            raise self.error(key, "0 is out of range", "give a number from 1 to 32767, or -1 (the broker's default)")
        return found

    def choice(self, key: str, choices: tuple[str, ...], *, any_case: bool = True) -> str:
        """Return one of the words in `choices`; the first is the default."""
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

        MM2 checks twice (MirrorMakerConfig.clusterPairs, MirrorConnectorConfig). It considers a pair of clusters if the
        pair's own `enabled` is exactly "true" or heartbeats are on. It copies the pair if `enabled`, trimmed, is true.
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
            self.warn(
                key,
                "remove the white space behind true; if heartbeats are off, MM2 switches the flow off because of it",
            )
        elif enabled:
            self.warn(
                key, f"at top level it switches on every pair of clusters, as in MM2; write {own} for this flow only"
            )
        return enabled

    def unresolved(self, key: str) -> str | None:
        """Return a value as the file has it: for secrets, which are resolved only when they are used."""
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
            raise self.error(key, "a list, but this key takes one value", "write the value without brackets or dashes")

    def _provider(self, name: str) -> tuple[str, str]:
        key = f"config.providers.{name}.class"
        return name, kind_of(self.text(key, ""), self.where(key))

    def _has_placeholder(self, key: str) -> bool:
        return "${" in (self._properties.get(key) or "")


def _quoted(properties: Properties) -> Iterator[Trap]:
    """Yield a trap for each value in quotes; no trap repeats the value, which may be a secret."""
    for key, entry in properties.entries.items():
        if is_quoted(entry.value.strip()):
            yield Trap(entry.line, key, _QUOTED)


def _is_true(value: str | None) -> bool:
    """Whether a value is exactly "true", untrimmed, in any case (Java's Boolean.parseBoolean)."""
    return value is not None and value.lower() == "true"
