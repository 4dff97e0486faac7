"""Answers what changes settings or offsets: it refuses what Connect refuses, and what cannot be done yet.

Settings of a flow are changed in the mirror's file, which is then applied as by `raymirror reload`. A request that
changes nothing succeeds, so that a tool which sets the same settings again and again is content.
"""

from collections.abc import Mapping

import msgspec

from actors.model.requests import ChangeSettings
from actors.rest.connectors import MirrorConnector
from actors.rest.definitions.judging import invalid, judged
from actors.rest.entities import NewConnector
from actors.rest.exchange import HttpAnswer, HttpCall, HttpRefusal
from actors.rest.states import STOPPED, info_of, state_of
from actors.rest.view import MirrorView

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
    """Refuse a new connector; one that exists is a conflict, as in Connect."""
    wanted: NewConnector = call.body
    name = (wanted.name or "").strip()
    settings = _named(name, strings_of(wanted.config))
    _refuse_invalid(settings)
    if name in view.connectors:
        raise HttpRefusal(409, f"Connector {name} already exists")
    raise HttpRefusal(501, f"A flow cannot be added over HTTP yet: add it to {_reload(view)}")


def put_config(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Replace the settings of a flow."""
    name = call.path["connector"]
    settings = _named(name, strings_of(call.body))
    connector = view.connectors.get(name)
    if connector is None:
        _refuse_invalid(settings)
        raise HttpRefusal(501, f"A flow cannot be added over HTTP yet: add it to {_reload(view)}")
    return _changed(view, connector, settings)


def patch_config(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Change some settings of a flow (KIP-477: null removes one)."""
    connector = view.connector(call)
    given = strings_of(call.body)
    patched = {key: value for key, value in {**connector.config, **given}.items() if value is not None}
    return _changed(view, connector, _named(connector.name, patched))


def _changed(view: MirrorView, connector: MirrorConnector, settings: Mapping[str, str | None]) -> HttpAnswer:
    if settings == connector.config:
        return HttpAnswer(body=info_of(view, connector))
    _refuse_invalid(settings)
    names = sorted(name for name in {*settings, *connector.config} if settings.get(name) != connector.config.get(name))
    deed = ChangeSettings(connector.flow, {name: settings.get(name) for name in names})
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
    """Refuse to remove a connector."""
    name = view.connector(call).name
    raise HttpRefusal(
        501,
        f"A flow cannot be removed over HTTP yet: remove it from {_reload(view)}. To stop it only: PUT"
        f" /connectors/{name}/stop",
    )


def alter_offsets(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Refuse to change offsets."""
    if not (call.body or {}).get("offsets"):
        raise HttpRefusal(400, "Partitions / offsets need to be provided for an alter offsets request")
    return _refuse_offsets(call, view)


def reset_offsets(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Refuse to remove offsets."""
    return _refuse_offsets(call, view)


def _refuse_offsets(call: HttpCall, view: MirrorView) -> HttpAnswer:
    connector = view.connector(call)
    if state_of(view, connector).state != STOPPED:
        raise HttpRefusal(
            400,
            "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the"
            f" specified connector by issuing a 'PUT' request to the '/connectors/{connector.name}/stop' endpoint",
        )
    raise HttpRefusal(
        501,
        "Offsets cannot be changed over HTTP yet. To copy a topic from another offset: raymirror.start in"
        f" {_reload(view)}",
    )


def _reload(view: MirrorView) -> str:
    return f"{view.config_path}, then: raymirror reload {view.config_path}"
