"""Finds and loads the policies that Python packages provide, and tests each one before it is used."""

import functools
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from engine.base.errors import ConfigError
from engine.config.flow_keys import FlowKeys
from engine.config.plugins.policy_settings import PolicySettings
from engine.config.property_reader import PropertyReader
from policies.own.kit import problems_of
from policies.own.own_policy import OwnPolicy

GROUP = "raymirror.policies"
PROVIDED = "or install a Python package that provides it on every node (docs/policies.md); Java classes cannot run here"
_KIT = "repair the package; policies.own.kit tests it (docs/policies.md)"


def find(name: str) -> EntryPoint | None:
    """Return the entry point with a name: the name of the Java class that it stands for, or any other."""
    return next(iter(entry_points(group=GROUP, name=name)), None)


@functools.cache
def provided() -> frozenset[str]:
    """Return the names of all entry points, as they were at the first call: to list them reads files."""
    return frozenset(point.name for point in entry_points(group=GROUP))


def load(reader: PropertyReader, keys: FlowKeys, key: str, point: EntryPoint, kind: type) -> OwnPolicy[Any]:
    """Make the policy of an entry point for a flow. Raises ConfigError if that fails, or if it cannot be used."""
    settings = PolicySettings(reader, keys.name)
    try:
        made = point.load()(settings)
    except ConfigError:
        raise
    except Exception as error:
        raise reader.error(key, f"{point.value} fails: {type(error).__name__}: {error}", _KIT) from error
    if problems := problems_of(made, kind, keys.name.source):
        raise reader.error(key, f"{point.value}: {'; '.join(problems)}", _KIT)
    return OwnPolicy(point.name, settings.used, made)
