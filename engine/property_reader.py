"""Typed reading of properties: every key that is asked for counts as honoured, every bad value names its line."""

from collections.abc import Iterable

from engine.errors import ConfigError
from engine.properties import Properties, Trap
from engine.providers import Providers, Where, kind_of
from engine.settings import ConfigWarning


class PropertyReader:
    """Reads a parsed file; raises ConfigError from every method that converts."""

    def __init__(self, properties: Properties) -> None:
        self.file = properties.file
        self.traps: tuple[Trap, ...] = properties.traps
        self.warnings: list[ConfigWarning] = []
        self._properties = properties
        self._read: set[str] = set()
        self.providers = Providers()
        self.providers = Providers(dict(map(self._provider, self.list("config.providers"))))

    def names(self) -> list[str]:
        """Return all keys, in the order of the file."""
        return list(self._properties.entries)

    def unread(self) -> list[str]:
        """Return the keys nobody asked for."""
        return [key for key in self._properties.entries if key not in self._read]

    def error(self, key: str, wrong: str, right: str) -> ConfigError:
        """Make the error of a key."""
        return self.where(key).error(wrong, right)

    def warn(self, key: str, what: str) -> None:
        """Note something about a key."""
        warning = ConfigWarning(self._properties.line(key), key, what)
        if warning not in self.warnings:  # a top-level key is read once for every flow
            self.warnings.append(warning)

    def first_key(self, *keys: str) -> str | None:
        """Return the first of some keys that is set; all of them count as honoured."""
        self._read.update(keys)
        return next((key for key in keys if key in self._properties.entries), None)

    def has(self, key: str) -> bool:
        """Whether a key is set."""
        return key in self._properties.entries

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
        value = self.raw(key)
        return default if value is None else value.strip()

    def list(self, key: str, default: Iterable[str] = (), required: str = "") -> list[str]:
        """Return a comma-separated list, trimmed; empty for an empty value."""
        value = self.raw(key)
        if value is None and required:
            raise self.error(key, "missing", required)
        if value is None:
            return list(default)
        found = [part.strip() for part in value.split(",") if part.strip()]
        if required and not found:
            raise self.error(key, "empty", required)
        return found

    def number(self, key: str, default: int, least: int, most: int) -> int:
        """Return a whole number within bounds."""
        value = self.raw(key)
        if value is None:
            return default
        try:
            number = int(value.strip())
        except ValueError:
            raise self.error(
                key, f"{value.strip()!r} is no number", f"give a whole number from {least} to {most}"
            ) from None
        if not least <= number <= most:
            raise self.error(key, f"{number} is out of range", f"give a number from {least} to {most}")
        return number

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a boolean as Kafka reads one."""
        value = self.text(key, "true" if default else "false").lower()
        if value not in ("true", "false"):
            raise self.error(key, f"{value!r} is neither true nor false", "write true or false")
        return value == "true"

    def flow_enabled(self, key: str) -> bool:
        """Return whether a flow is enabled: MM2 does not trim here, so white space behind `true` disables the flow."""
        value = self.raw(key) or ""
        if value != value.strip() and value.strip().lower() == "true":
            self.warn(key, "white space behind true disables the flow in MM2, and here; remove it")
        elif value.lower() not in ("true", "false"):
            self.warn(key, f"{value!r} is not true, so the flow is off; write true or false")
        return value.lower() == "true"

    def unresolved(self, key: str) -> str | None:
        """Return a value as it stands in the file: for secrets, which are resolved where they are used."""
        self._read.add(key)
        return self._properties.get(key)

    def _provider(self, name: str) -> tuple[str, str]:
        key = f"config.providers.{name}.class"
        return name, kind_of(self.text(key, ""), self.where(key))
