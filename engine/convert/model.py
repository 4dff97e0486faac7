"""The parts of a conversion: values with their origins, settings that are carried, and what is dropped."""

import msgspec

from engine.base.errors import ConfigError


class Origin(msgspec.Struct, frozen=True):
    """The place that something comes from: file, line (0: none), and its key or path there (empty: the whole)."""

    file: str
    line: int
    key: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.key}" if self.key else place

    def error(self, wrong: str, right: str) -> ConfigError:
        """Return the error of an input that cannot be converted."""
        return ConfigError(self.file, self.line, self.key or "file", wrong, right)

    def below(self, key: str, line: int) -> "Origin":
        """Return the place of a part of this one."""
        return Origin(self.file, line, f"{self.key}.{key}" if self.key else key)


class Given(msgspec.Struct, frozen=True):
    """A value with its origin. It may be a secret, so its text never shows it."""

    text: str
    origin: Origin

    def __repr__(self) -> str:
        return f"Given({self.origin})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [("origin", str(self.origin))]


class Carried(msgspec.Struct, frozen=True):
    """A setting of the new file: key, value, origin, and why it differs from its origin (empty: it does not)."""

    key: str
    value: str
    origin: Origin
    why: str = ""

    def __repr__(self) -> str:
        return f"Carried({self.key!r}, {self.origin})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [("key", self.key), ("origin", str(self.origin))]


class Dropped(msgspec.Struct, frozen=True):
    """Something that the new file does not have: why, and what does it here instead (empty: nothing)."""

    origin: Origin
    why: str
    instead: str = ""
    near: str = ""
    """The alias or flow that it belongs to; empty: the whole mirror."""
    needless: bool = False
    """Whether nothing is lost without it."""
    empties: tuple[str, ...] = ()
    """Keys that get an empty value because of it: without it, raymirror would copy more or other things than meant."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line adds to the files."""

    whitelist: str | None = None
    blacklist: str | None = None
    num_streams: str | None = None
    message_handler: str | None = None
    unneeded: tuple[str, ...] = ()
    """Options of MirrorMaker 1 that mean nothing here."""
    source_alias: str | None = None
    target_alias: str | None = None
    source_bootstrap: str | None = None
    target_bootstrap: str | None = None
    secrets: str = "/etc/raymirror/secrets"
    """The folder where the secrets of references that cannot be kept will be on the machines of the mirror."""


COMMAND_LINE = "command line"
"""The file name of origins that are options of the command."""


def option(name: str) -> Origin:
    """Return the origin of an option of the command."""
    return Origin(COMMAND_LINE, 0, f"--{name}")


class InputFile(msgspec.Struct, frozen=True):
    """A file to convert: its name for messages, its bytes, and its role if the command line names it."""

    name: str
    data: bytes
    role: str = ""

    def __repr__(self) -> str:
        return f"InputFile({self.name!r})"
