"""Answers what changes settings, and what creates and deletes connectors: it refuses what Connect refuses, and more.

Settings of a flow are changed in the mirror's file, which is then applied as by `raymirror reload`. A request that
changes nothing succeeds, so that a tool which sets the same settings again and again is content.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

import msgspec

from actors.model.requests import ChangeSettings, CreateFlow, DeleteFlow, GiveCommand
from actors.model.states import Command
from actors.rest.connectors import ConnectorKind, MirrorConnector
from actors.rest.definitions.judging import invalid, judged, kind_named
from actors.rest.entities import ConnectorInfo, NewConnector
from actors.rest.exchange import HttpAnswer, HttpCall, HttpRefusal
from actors.rest.states import PAUSED, RUNNING, STOPPED, info_of
from actors.rest.view import MirrorView

_BEGINNINGS: Final[Mapping[str, Command]] = {
    RUNNING: Command.RESUME,
    PAUSED: Command.PAUSE,
    STOPPED: Command.STOP,
}
"""The command that gives a new connector its initial state (KIP-980)."""
Settings = dict[str, str | int | float | bool | None]
"""Settings as JSON has them; Connect turns numbers and booleans into text (Jackson's Map<String, String>)."""


def strings_of(settings: Mapping[str, str | int | float | bool | None]) -> dict[str, str | None]:
    """Return settings as text; None stays: it removes a setting in a patch, and is wrong elsewhere."""
    return {key: _text(value) for key, value in settings.items()}


def _text(value: str | float | bool | None) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if value is None or isinstance(value, str) else str(value)


def _named(name: str, settings: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return settings with the name in them. Raises HttpRefusal if they have another name."""
    own = settings.get("name")
    if own is not None and own != name:
        raise HttpRefusal(400, f"Connector name configuration ({own}) doesn't match connector name in the URL ({name})")
    return {**settings, "name": name}


def create(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Create the connector of a flow that a request has deleted (KIP-980: running, paused or stopped), or a new flow.

    One that exists is a conflict, as in Connect.
    """
    wanted: NewConnector = call.body
    name = (wanted.name or "").strip()
    settings = _named(name, strings_of(wanted.config))
    _refuse_invalid(settings)
    if name in view.connectors:
        raise HttpRefusal(409, f"Connector {name} already exists")
    command = _BEGINNINGS.get(wanted.initial_state or RUNNING)
    if command is None:
        words = ", ".join(_BEGINNINGS)
        raise HttpRefusal(400, f"Unknown initial state {wanted.initial_state!r}; it is one of: {words}")
    return _created(view, name, settings, command)


def _created(view: MirrorView, name: str, settings: Mapping[str, str | None], command: Command) -> HttpAnswer:
    connector = view.deleted.get(name)
    if connector is None:
        return _new_flow(name, settings, command)
    _refuse_all_but_source(name, connector.flow, connector.kind)
    changed = _changed(view, connector, settings)
    return msgspec.structs.replace(
        changed, status=201, headers=_location(name), deeds=(*changed.deeds, GiveCommand(command, connector.flow))
    )


def _new_flow(name: str, settings: Mapping[str, str | None], command: Command) -> HttpAnswer:
    """Add a flow to the mirror's file."""
    flow, _, word = name.rpartition(".")
    source, arrow, target = flow.partition("->")
    kind, named = kind_named(settings.get("connector.class") or ""), kind_named(word)
    if not (source and arrow and target and named) or word != named or kind is not named:
        usual = f"A->B.{ConnectorKind.SOURCE}"
        raise HttpRefusal(400, f"Connector {name} must have the name of its flow and class, for example {usual}")
    _refuse_all_but_source(name, flow, named)
    if command is not Command.RESUME:
        raise HttpRefusal(501, "A flow that is new in the file begins RUNNING: create it so, then pause or stop it")
    given = {key: value for key, value in settings.items() if value is not None}
    own = {key: value for key, value in given.items() if key not in ("name", "connector.class")}
    return HttpAnswer(
        status=201,
        body=ConnectorInfo(name, given, ()),
        headers=_location(name),
        deeds=(CreateFlow(source, target, own),),
    )


def _refuse_all_but_source(name: str, flow: str, kind: ConnectorKind) -> None:
    """Refuse to create a connector that comes with a flow. Raises HttpRefusal."""
    if kind is not ConnectorKind.SOURCE:
        source = f"{flow}.{ConnectorKind.SOURCE}"
        right = f"create connector {source}, or switch on what it does in the settings of that one"
        raise HttpRefusal(501, f"{name} comes with its flow: {right}")


def _location(name: str) -> tuple[tuple[str, str], ...]:
    return (("Location", f"/connectors/{quote(name, safe='')}"),)


def put_config(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Replace the settings of a flow; a connector that a request has deleted is created, as in Connect."""
    name = call.path["connector"]
    settings = _named(name, strings_of(call.body))
    connector = view.connectors.get(name)
    if connector is None:
        _refuse_invalid(settings)
        return _created(view, name, settings, Command.RESUME)
    return _changed(view, connector, settings)


def patch_config(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Change some settings of a flow (KIP-477: null removes one)."""
    connector = view.connector(call)
    given = strings_of(call.body)
    patched = {key: value for key, value in {**connector.config, **given}.items() if value is not None}
    return _changed(view, connector, _named(connector.name, patched), replaces=False)


def _changed(
    view: MirrorView, connector: MirrorConnector, settings: Mapping[str, str | None], *, replaces: bool = True
) -> HttpAnswer:
    """Have settings changed; `replaces`: they are all that the connector is to have.

    Then a change of others that another request makes at the same time is a conflict: both would be half done.
    """
    if settings == connector.config:
        return HttpAnswer(body=info_of(view, connector))
    _refuse_invalid(settings)
    names = sorted(name for name in {*settings, *connector.config} if settings.get(name) != connector.config.get(name))
    deed = ChangeSettings(
        connector.flow, {name: settings.get(name) for name in names}, connector.config if replaces else None
    )
    after = {name: value for name, value in settings.items() if value is not None}
    changed = msgspec.structs.replace(connector, config=after)
    return HttpAnswer(body=info_of(view, changed), deeds=(deed,))


def _refuse_invalid(settings: Mapping[str, str | None]) -> None:
    if settings.get("connector.class") is None:
        shown = ", ".join(f"{key}={value}" for key, value in settings.items() if key == "name")
        raise HttpRefusal(400, f"Connector config {{{shown}}} contains no connector type")
    refusal = invalid(judged(settings))
    if refusal:
        raise HttpRefusal(400, refusal)


def delete(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Remove the connectors of a flow, which stops it. Its settings stay in the file, its positions on the target."""
    connector = view.connector(call)
    flow = view.flow(connector)
    if connector.kind is not ConnectorKind.SOURCE:
        raise HttpRefusal(501, f"{connector.name} cannot be removed alone. {_switched_off(connector, view)}")
    if flow is not None and flow.failed_over:
        raise HttpRefusal(501, f"Flow {flow.flow} was failed over, and is stopped. Remove it from {_reload(view)}")
    return HttpAnswer(status=204, deeds=(DeleteFlow(connector.flow),))


def _switched_off(connector: MirrorConnector, view: MirrorView) -> str:
    """Say how the work of a connector is switched off."""
    if connector.kind is ConnectorKind.HEARTBEAT:
        return f"Set {connector.flow}.emit.heartbeats.enabled = false in {_reload(view)}"
    names = "emit.checkpoints.enabled and sync.group.offsets.enabled"
    return f"Set {names} of the flow to false, or remove {connector.flow}.{ConnectorKind.SOURCE}"


def _reload(view: MirrorView) -> str:
    return f"{view.config_path}, then: raymirror reload {view.config_path}"
