"""Changes settings of a flow that a request gives as those of a connector, in the text of the configuration file.

Only the flow's own keys are written (`A->B.topics`), so no other flow changes. What cannot be changed so is refused by
name: a setting of a cluster, a password, raymirror's own keys, a setting that has no effect here.
"""

from collections.abc import Mapping

import msgspec

from engine.base.errors import MirrorError
from engine.config.config import plain_settings, read_config
from engine.config.file.config_file import parse_file
from engine.config.file.properties_edit import with_settings
from engine.config.http.connector_settings import connector_settings, setting_places
from engine.config.secrets import is_secret
from engine.config.settings import MirrorConfig
from policies.files.foreign_files import UTF_8_BOM
from policies.keys.read_key import OWN
from policies.model import FlowName

SettingChanges = Mapping[str, str | None]
"""Settings of a connector by name; None removes one."""
_GIVEN = ("name", "connector.class", "source.cluster.alias", "target.cluster.alias", "enabled")
"""Settings that say which connector it is."""


class CannotChange(MirrorError):
    """Settings that cannot be changed as those of a connector; nothing was changed."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(("nothing was changed:", *self.problems))


class ChangedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file with changed settings: its bytes, its configuration, its settings without passwords."""

    data: bytes
    config: MirrorConfig
    plain: dict[str, str]


def changed_file(data: bytes, file: str, flow: FlowName, changes: SettingChanges) -> ChangedFile:
    """Return a `.properties` file in which a flow has other settings. Raises CannotChange, ConfigError."""
    before = plain_settings(parse_file(data, file))
    places = setting_places(before, flow)
    if problems := _problems(flow, changes, places):
        raise CannotChange(tuple(problems))
    keys = {_key_of(flow, name, places): value for name, value in changes.items()}
    bom = data[: len(UTF_8_BOM)] if data.startswith(UTF_8_BOM) else b""
    text = with_settings(data.removeprefix(bom).decode("iso-8859-1"), keys)
    after = bom + text.encode("iso-8859-1")
    properties = parse_file(after, file)
    config, plain = read_config(properties), plain_settings(properties)
    _refuse_untaken(flow, changes, plain)
    return ChangedFile(data=after, config=config, plain=plain)


def _problems(flow: FlowName, changes: SettingChanges, places: Mapping[str, str]) -> list[str]:
    found = []
    for name, value in sorted(changes.items()):
        if name in _GIVEN:
            found.append(f"{name} says which connector it is, so it cannot change")
        elif is_secret(name):
            found.append(f"{name} may hold a password, which is changed in the file, or where its placeholder reads it")
        elif name.startswith(("source.cluster.", "target.cluster.")):
            key = places.get(name, name)
            found.append(f"{name} is a setting of a cluster, which all its flows have: change {key} in the file")
        elif name.startswith(OWN):
            found.append(f"{name} is raymirror's own: change {flow}.{name} in the file")
        elif value is None and (key := places.get(name, "")) and not key.startswith(f"{flow}."):
            found.append(
                f"{name} cannot be removed for one flow, because {key} sets it for others too: give it a value"
            )
    return found


def _key_of(flow: FlowName, name: str, places: Mapping[str, str]) -> str:
    """Return the key of a setting: the flow's own one, present or new."""
    present = places.get(name, "")
    return present if present.startswith(f"{flow}.") else f"{flow}.{name}"


def _refuse_untaken(flow: FlowName, changes: SettingChanges, plain: Mapping[str, str]) -> None:
    """Refuse changes that the file has and the flow does not follow. Raises CannotChange."""
    after = connector_settings(plain, flow)
    untaken = [name for name, value in sorted(changes.items()) if after.get(name) != value]
    if untaken:
        raise CannotChange(tuple(_why_untaken(name, changes[name]) for name in untaken))


def _why_untaken(name: str, value: str | None) -> str:
    if value is None:
        return f"{name} cannot be removed, because a weaker key of the file sets it too"
    return f"{name} has no effect here: leave it out (engine/CONFIG.md has every key)"
