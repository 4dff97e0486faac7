"""Answers about the classes of connectors: which there are, their settings, whether given settings are valid."""

from actors.rest.configuring import strings_of
from actors.rest.connectors import KAFKA_VERSION, ConnectorKind
from actors.rest.definitions.judging import judged, kind_named
from actors.rest.definitions.rows import rows_by_class
from actors.rest.entities import SOURCE_TYPE, PluginInfo
from actors.rest.exchange import HttpAnswer, HttpCall, HttpRefusal
from actors.rest.view import MirrorView

_ALIAS = "Connector"


def list_plugins(_call: HttpCall, _view: MirrorView) -> HttpAnswer:
    """Return MM2's classes."""
    found = [PluginInfo(kind.class_name, SOURCE_TYPE, KAFKA_VERSION) for kind in ConnectorKind]
    return HttpAnswer(body=sorted(found, key=lambda one: one.class_name))


def definitions(call: HttpCall, _view: MirrorView) -> HttpAnswer:
    """Return the settings of a class."""
    name = call.path["plugin"]
    kind = kind_named(name)
    if kind is None:
        raise HttpRefusal(404, f"Unknown plugin {name}.")
    return HttpAnswer(body=[row.definition() for row in rows_by_class(kind)])


def validate(call: HttpCall, _view: MirrorView) -> HttpAnswer:
    """Check settings of a class; errors are in the answer."""
    name, settings = call.path["plugin"], strings_of(call.body)
    named = settings.get("connector.class")
    if named is not None and not _short(named).endswith(_short(name)):
        raise HttpRefusal(400, f"Included connector type {named} does not match request type {name}")
    if named is None:
        raise HttpRefusal(400, f"Connector config {_shown(settings)} contains no connector type")
    return HttpAnswer(body=judged(settings))


def _short(name: str) -> str:
    return name.removesuffix(_ALIAS) if len(name) > len(_ALIAS) else name


def _shown(settings: dict[str, str | None]) -> str:
    """Return the names of settings; Connect also shows their values, which may hold a password."""
    return "{" + ", ".join(settings) + "}"
