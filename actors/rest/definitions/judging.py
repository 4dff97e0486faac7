"""Judges the settings of a connector class as Kafka does (ConfigDef.validateAll, AbstractHerder), with its words."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from actors.rest.connectors import ConnectorKind
from actors.rest.definitions.rows import KeyRow, groups_of, only_of_connect, rows_of
from actors.rest.entities import JudgedConfig, JudgedSetting, JudgedValue
from actors.rest.exchange import HttpRefusal
from engine.config.plugins.loading import provided
from policies.naming import LIKE_IDENTITY, PACKAGE

_NUMBERS: Final[Mapping[str, tuple[int, int]]] = {
    "INT": (-(2**31), 2**31 - 1),
    "SHORT": (-(2**15), 2**15 - 1),
    "LONG": (-(2**63), 2**63 - 1),
}
_INTEGER = re.compile(r"[+-]?[0-9]+")
_COMMA = re.compile(r"\s*,\s*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_KAFKA: Final = "org.apache.kafka."
_TRIMMED: Final = "".join(map(chr, range(33)))
"""The characters that Java's `trim` removes."""
_OWN_CLASSES: Final = (
    "replication.policy.class",
    "topic.filter.class",
    "group.filter.class",
    "config.property.filter.class",
)
"""Settings whose class a Python package may provide (docs/policies.md)."""
_VERSION: Final = ".plugin.version"
HIDDEN: Final = "[hidden]"

Parsed = str | int | float | bool | list[str] | None


class _Bad(Exception):
    """A value that its type or its limit refuses; the text is Kafka's."""


def kind_named(name: str) -> ConnectorKind | None:
    """Return the class with a full or short name, with or without `Connector` at its end (Connect's aliases)."""
    short = name.removeprefix(PACKAGE)
    return next((kind for kind in ConnectorKind if short in (kind.value, kind.removesuffix("Connector"))), None)


def judged(settings: Mapping[str, str | None]) -> JudgedConfig:
    """Judge settings by the class that they name. Raises HttpRefusal if it is none of MM2's (Connect: 500)."""
    named = settings.get("connector.class") or ""
    kind = kind_named(named)
    if kind is None:
        raise HttpRefusal(
            400,
            f"Failed to find any class that implements Connector and which name matches {named}, available connectors"
            f" are: {', '.join(kind.class_name for kind in ConnectorKind)}",
        )
    rows = rows_of(kind)
    connects = only_of_connect(kind)
    configs = tuple(_judged(row, settings, of_class=row.name not in connects) for row in rows)
    nulls = [key for key, value in settings.items() if value is None and all(one.value.name != key for one in configs)]
    unknown = tuple(JudgedSetting(None, JudgedValue(name=key, value=None, errors=(_NULL,))) for key in nulls)
    configs = (*unknown, *configs)
    errors = sum(len(one.value.errors) for one in configs)
    return JudgedConfig(named, errors, groups_of(rows), configs)


_NULL: Final = "Null value can not be supplied as the configuration value."


def invalid(found: JudgedConfig) -> str:
    """Return the text with which Connect refuses invalid settings; empty if they are valid."""
    if not found.error_count:
        return ""
    head = f"Connector configuration is invalid and contains the following {found.error_count} error(s):"
    errors = [error for one in found.configs for error in one.value.errors]
    where = "You can also find the above list of errors at the endpoint"
    return "\n".join([head, *errors, f"{where} `/connector-plugins/{{connectorType}}/config/validate`"])


def _judged(row: KeyRow, settings: Mapping[str, str | None], *, of_class: bool) -> JudgedSetting:
    """Judge one setting. Of a setting `of_class` Connect drops its own finding about null for that of the class."""
    errors: list[str] = []
    value: Parsed = None
    if row.name in settings:
        try:
            value = parsed(row, settings[row.name])
        except _Bad as bad:
            errors.append(str(bad))
    elif row.is_required:
        errors.append(f'Missing required configuration "{row.name}" which has no default value.')
    else:
        value = None if row.default is None else parsed(row, row.default)
    try:
        _check(row, value)
    except _Bad as bad:
        errors.append(str(bad))
    if row.name in settings and settings[row.name] is None and not of_class:
        errors.append(_NULL)
    return JudgedSetting(
        row.definition(),
        JudgedValue(
            name=row.name, value=_text(row, value), errors=tuple(errors), visible=_is_visible(row.name, settings)
        ),
    )


def _is_visible(name: str, settings: Mapping[str, str | None]) -> bool:
    """Whether a form shows a setting: the version of a converter only if a converter is set."""
    converter = name.removesuffix(_VERSION)
    return not (converter != name and converter.endswith("converter")) or settings.get(converter) is not None


def parsed(row: KeyRow, given: str | None) -> Parsed:
    """Read a value as its type (ConfigDef.parseType). Raises _Bad."""
    if given is None:
        return None
    text = given.strip(_TRIMMED)
    match row.type:
        case "BOOLEAN":
            if text.lower() not in ("true", "false"):
                raise _bad(row, given, "Expected value to be either true or false")
            return text.lower() == "true"
        case "INT" | "SHORT" | "LONG":
            least, most = _NUMBERS[row.type]
            if not _INTEGER.fullmatch(text) or len(text) > 20 or not least <= int(text) <= most:
                raise _bad(row, given, f"Not a number of type {row.type}")
            return int(text)
        case "DOUBLE":
            try:
                return float(text)
            except ValueError:
                raise _bad(row, given, "Not a number of type DOUBLE") from None
        case "LIST":
            return _COMMA.split(text) if text else []
        case "CLASS":
            if not _is_class(row.name, text):
                raise _bad(row, given, f"Class {given} could not be found.")
            return text
    return text


def _is_class(key: str, name: str) -> bool:
    """Whether a class is Kafka's, or one that works here instead of it; other classes of Java cannot run."""
    return name.startswith(_KAFKA) or name in LIKE_IDENTITY or (key in _OWN_CLASSES and name in provided())


def _check(row: KeyRow, value: Parsed) -> None:
    """Check a value against the limit of its row. Raises _Bad."""
    kind, _, limit = row.limit.partition(":")
    if kind:
        _LIMITS[kind](row, value, limit)


def _range(row: KeyRow, value: Parsed, limit: str) -> None:
    least, _, most = limit.partition(",")
    if not isinstance(value, int | float):
        raise _bad(row, None, "Value must be non-null")
    if value < float(least):
        raise _bad(row, value, f"Value must be at least {least}")
    if most and value > float(most):
        raise _bad(row, value, f"Value must be no more than {most}")


def _range_or_null(row: KeyRow, value: Parsed, limit: str) -> None:
    if value is not None:
        _range(row, value, limit)


def _one_of(row: KeyRow, value: Parsed, limit: str) -> None:
    if value not in limit.split(","):
        raise _bad(row, value, f"String must be one of: {limit.replace(',', ', ')}")


def _one_of_in_any_case(row: KeyRow, value: Parsed, limit: str) -> None:
    if value is None or str(value).lower() not in limit.lower().split(","):
        raise _bad(row, value, f"String must be one of (case insensitive): {limit.replace(',', ', ')}")


def _list(row: KeyRow, value: Parsed, limit: str) -> None:
    words, about = limit.split(",") if limit else [], f"Configuration '{row.name}'"
    if not isinstance(value, list):
        raise _Bad(f"{about} values must not be null.")
    if words and not value:
        raise _Bad(f"{about} must not be empty. Valid values include: [{', '.join(words)}]")
    if len(set(value)) < len(value):
        raise _Bad(f"{about} values must not be duplicated.")
    if "" in value:
        raise _Bad(f"{about} values must not be empty.")
    unknown = next((one for one in value if words and one not in words), None)
    if unknown is not None:
        raise _bad(row, unknown, f"String must be one of: {', '.join(words)}")


def _aliases(row: KeyRow, value: Parsed, _limit: str) -> None:
    if not isinstance(value, list):
        raise _bad(row, None, "entry must be non null")
    if len(set(value)) < len(value):
        raise _bad(row, f"[{', '.join(value)}]", "Duplicate alias provided.")


def _not_empty(row: KeyRow, value: Parsed, _limit: str) -> None:
    if value == "":
        raise _bad(row, value, "String must be non-empty")


def _name(row: KeyRow, value: Parsed, _limit: str) -> None:
    if value == "":
        raise _bad(row, value, "String may not be empty")
    if isinstance(value, str) and (found := _CONTROL.findall(value)):
        codes = ", ".join(str(ord(one)) for one in found)
        what = f"String may not contain control sequences but had the following ASCII chars: {codes}"
        raise _bad(row, value, what)


_LIMITS: Final[Mapping[str, Callable[[KeyRow, Parsed, str], None]]] = {
    "range": _range,
    "range_or_null": _range_or_null,
    "in": _one_of,
    "in_any_case": _one_of_in_any_case,
    "list": _list,
    "aliases": _aliases,
    "not_empty": _not_empty,
    "name": _name,
}
"""The checks of values (ConfigDef's validators), by the first word of a row's limit."""


def _bad(row: KeyRow, value: object, why: str) -> _Bad:
    shown = "null" if value is None else HIDDEN if row.type == "PASSWORD" else value
    return _Bad(f"Invalid value {shown} for configuration {row.name}: {why}")


def _text(row: KeyRow, value: Parsed) -> str | None:
    """Return a value as Connect shows it (ConfigDef.convertToString)."""
    if value is None:
        return None
    if row.type == "PASSWORD":
        return HIDDEN
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, list) else str(value)
