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
_CLUSTERS = ("source.cluster.", "target.cluster.")


class CannotChange(MirrorError):
    """Settings that cannot be changed as those of a connector; nothing was changed."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(("nothing was changed:", *self.problems))


class ChangedSince(MirrorError):
    """A flow has other settings than those that were to be replaced; nothing was changed."""

    exit_code = 1  # the same request, derived from the present settings, may succeed

    def __init__(self, flow: str) -> None:
        super().__init__(flow)
        self.flow = flow

    def __str__(self) -> str:
        return (
            f"nothing was changed: another request has changed settings of flow {self.flow} meanwhile; read them again"
        )


class ChangedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file with changed settings: its bytes, its configuration, its settings without passwords."""

    data: bytes
    config: MirrorConfig
    plain: dict[str, str]


def changed_file(
    data: bytes, file: str, flow: FlowName, changes: SettingChanges, before: Mapping[str, str] | None = None
) -> ChangedFile:
    """Return a `.properties` file in which a flow has other settings. Raises CannotChange, ConfigError.

    `before`: the connector's settings that the changes replace as a whole. Raises ChangedSince if it has others.
    """
    present = plain_settings(parse_file(data, file))
    if before is not None and _of_flow(before) != _of_flow(connector_settings(present, flow)):
        raise ChangedSince(str(flow))
    places = setting_places(present, flow)
    if problems := _problems(flow, changes, places):
        raise CannotChange(tuple(problems))
    keys = {_key_of(flow, name, places): value for name, value in changes.items()}
    return _taken(_edited(data, keys), file, flow, changes)


def file_with_flow(data: bytes, file: str, flow: FlowName, settings: Mapping[str, str]) -> ChangedFile:
    """Return a `.properties` file with a new flow between two of its clusters. Raises CannotChange, ConfigError.

    `settings`: all that the connector of the flow is to have. What the file sets for all flows is not written again.
    """
    before = parse_file(data, file)
    config, plain = read_config(before), plain_settings(before)
    if problems := [*_unknown_clusters(flow, config), *_problems_of_new(flow, settings, plain)]:
        raise CannotChange(tuple(problems))
    own = {name: value for name, value in settings.items() if name not in _GIVEN and not name.startswith(_CLUSTERS)}
    keys = {f"{flow}.{name}": value for name, value in own.items() if plain.get(name) != value}
    after = _edited(data, {f"{flow}.enabled": "true", **keys})
    return _taken(after, file, flow, own)


def _of_flow(settings: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if name not in _GIVEN}


def _unknown_clusters(flow: FlowName, config: MirrorConfig) -> list[str]:
    if flow in [one.name for one in config.flows]:
        return [f"{flow} is in the file already"]
    return [
        f"cluster {alias!r} is not in the file: add it to clusters, and its addresses as {alias}.bootstrap.servers"
        for alias in flow
        if alias not in config.clusters
    ]


def _problems_of_new(flow: FlowName, settings: Mapping[str, str], plain: Mapping[str, str]) -> list[str]:
    """Say which settings a new flow cannot have: those of clusters are the file's, or absent."""
    given = {"source.cluster.alias": flow.source, "target.cluster.alias": flow.target, "enabled": "true"}
    found = [
        f"{name} must be {right!r} for flow {flow}, or absent"
        for name, right in given.items()
        if settings.get(name, right) != right
    ]
    own = {name: value for name, value in settings.items() if name not in _GIVEN}
    for name, value in sorted(own.items()):
        side, _, setting = name.partition(".cluster.")
        if side in ("source", "target") and setting and not is_secret(name):
            key = f"{flow.source if side == 'source' else flow.target}.{setting}"
            if plain.get(key, plain.get(setting)) != value:
                found.append(f"{name} is not what the file has: leave it out, or change {key} in the file")
        else:
            found += _problems(flow, {name: value}, {})
    return found


def _edited(data: bytes, keys: SettingChanges) -> bytes:
    bom = data[: len(UTF_8_BOM)] if data.startswith(UTF_8_BOM) else b""
    return bom + with_settings(data.removeprefix(bom).decode("iso-8859-1"), keys).encode("iso-8859-1")


def _taken(after: bytes, file: str, flow: FlowName, changes: SettingChanges) -> ChangedFile:
    """Read a changed file. Raises ConfigError, and CannotChange if the flow does not follow a change."""
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
        elif name.startswith(_CLUSTERS):
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
