"""The difference between the configuration that runs and another one: flow by flow, key by key, no password in it.

Pure: it is given both configurations and both files' plain settings. What cannot change while a flow is mirrored is
refused with its key; what is read at a start only is named so. The rest takes effect at once.
"""

from collections.abc import Iterable, Mapping

import msgspec

from actors.config.effective import BESIDE, SYNCS, changed, settings_of, settings_of_mirror
from actors.model.fingerprint import fingerprint_of
from engine.config.secrets import SECRET_KEYS
from engine.config.settings import MirrorConfig
from policies.model import FlowName

ADDED, REMOVED, CHANGED, UNTOUCHED = "added", "removed", "changed", "untouched"
MIRROR, NOWHERE = "(mirror)", "(no flow)"
NOT_SET, HIDDEN = "(not set)", "(hidden)"
NOW, NEXT_START = "now", "at the next start"
NOTHING = "nothing uses it"
MOVES = "now; its copiers are replaced one by one"
STAYS = "now; its copiers stay"
NEVER = "not while the flow is mirrored"
STARTS = "now; it goes on from its positions, if it has any"
DRAINS = "now; it is drained, its positions stay on the target"
SPARK_BEGINS_AGAIN = "now; Spark begins again with it"

FIXED: Mapping[str, tuple[str, ...]] = {
    "naming": (
        "replication.policy.class",
        "replication.policy.separator",
        "replication.policy.internal.topic.separator.enabled",
    ),
    "positions_topic": ("offset.storage.topic",),
    "connector": ("raymirror.connector.name",),
    SYNCS: ("offset-syncs.topic.location",),
}
"""Fields of a flow that say where its copies and positions are, and the keys that they are made of."""
_WHY_FIXED = {
    "naming": "its copies have the names that the running policy gives them",
    "positions_topic": "its positions are in the running topic",
    "connector": "its positions are kept under the running name",
    SYNCS: "offsets of consumers are translated by the syncs in the running topic",
}
_WIDE = {
    "deployment_id": ("raymirror.deployment.id",),
    "telemetry": ("raymirror.metrics.", "raymirror.otlp."),
    "spark": ("raymirror.spark", "raymirror.storage.shared"),
    "storage": ("raymirror.storage",),
    "audit_days": ("raymirror.audit.",),
    "proof": ("raymirror.proof",),
}
_WHEN = {"deployment_id": NEXT_START, "spark": SPARK_BEGINS_AGAIN, "proof": SPARK_BEGINS_AGAIN}


class ChangeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line: a flow as a whole (no key), or a key of the file. Values stand as in the file, or are hidden."""

    flow: str
    change: str
    key: str = ""
    running: str = ""
    new: str = ""
    takes_effect: str = ""


class ConfigDifference(msgspec.Struct, frozen=True, kw_only=True):
    """What another configuration changes; `refused` says what cannot change while the mirror runs."""

    running: str
    """sha256 of the file that runs."""
    new: str
    rows: tuple[ChangeRow, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def is_none(self) -> bool:
        """Whether nothing that is done changes; the file's bytes may."""
        return all(row.change == UNTOUCHED or row.takes_effect == NOTHING for row in self.rows)

    def named(self, change: str) -> tuple[str, ...]:
        """Name the flows that are added, removed, changed or untouched."""
        return tuple(row.flow for row in self.rows if row.change == change and not row.key)


class ConfigSide(msgspec.Struct, frozen=True):
    """One of the two: the configuration, the settings of its file that may be shown, the sha256 of the file."""

    config: MirrorConfig
    plain: Mapping[str, str]
    digest: str


def difference(running: ConfigSide, new: ConfigSide) -> ConfigDifference:
    """Compare what runs with what is to run."""
    before = {flow.name: flow for flow in running.config.flows}
    after = {flow.name: flow for flow in new.config.flows}
    names = list(dict.fromkeys([*before, *after]))
    fields = {
        name: changed(settings_of(running.config, before[name]), settings_of(new.config, after[name])) - {BESIDE}
        for name in names
        if name in before and name in after
    }
    keys = _changed_keys(running, new)
    homes = {key: _home(key, names, fields, running, new) for key in keys}
    rows: list[ChangeRow] = []
    refused: list[str] = []
    for name in names:
        own = [key for key, home in homes.items() if name in home]
        rows += _of_flow(name, own, keys, fields.get(name), running, new)
        refused += _fixed(name, fields.get(name, frozenset()), own, keys)
    rows += _of_mirror(keys, homes, running, new)
    return ConfigDifference(running=running.digest, new=new.digest, rows=tuple(rows), refused=tuple(refused))


def _changed_keys(running: ConfigSide, new: ConfigSide) -> dict[str, tuple[str, str]]:
    """Give the keys that differ, with both values; what may hold a password is compared, and not shown."""
    known = running.plain.keys() | new.plain.keys()
    plain = sorted(key for key in known if running.plain.get(key) != new.plain.get(key))
    found = {key: (running.plain.get(key, NOT_SET), new.plain.get(key, NOT_SET)) for key in plain}
    before, after = _secrets(running.config), _secrets(new.config)
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            found[key] = (HIDDEN if key in before else NOT_SET, HIDDEN if key in after else NOT_SET)
    return found


def _secrets(config: MirrorConfig) -> dict[str, str]:
    return {
        cluster.places.get(name, (f"{alias}.{name}", 0))[0]: cluster.security[name]
        for alias, cluster in config.clusters.items()
        for name in SECRET_KEYS
        if name in cluster.security
    }


def _home(
    key: str, names: Iterable[FlowName], fields: Mapping[FlowName, frozenset[str]], running: ConfigSide, new: ConfigSide
) -> tuple[FlowName, ...]:
    """Name the flows that a changed key may have changed: added and removed ones by their own keys alone."""
    if _wide_part(key, running, new):
        return ()
    names = tuple(names)
    own = tuple(name for name in names if key.startswith(f"{name}."))
    if own:
        return tuple(name for name in own if fields.get(name, True))
    if "->" in key:
        return ()
    aliases = {*running.config.clusters, *new.config.clusters}
    alias = max((one for one in aliases if key.startswith(f"{one}.")), key=len, default=None)
    return tuple(name for name in names if fields.get(name) and (alias is None or alias in name))


def _of_flow(
    name: FlowName,
    own: list[str],
    keys: Mapping[str, tuple[str, str]],
    fields: frozenset[str] | None,
    running: ConfigSide,
    new: ConfigSide,
) -> list[ChangeRow]:
    flow = str(name)
    if fields is None:
        is_new = any(one.name == name for one in new.config.flows)
        change, then = (ADDED, STARTS) if is_new else (REMOVED, DRAINS)
    elif not fields:
        return [ChangeRow(flow=flow, change=UNTOUCHED)]
    else:
        before, after = (_fingerprint(side.config, name) for side in (running, new))
        change, then = CHANGED, NEVER if fields & FIXED.keys() else STAYS if before == after else MOVES
    head = ChangeRow(flow=flow, change=change, takes_effect=then)
    if fields and not own:  # no key of its own did it
        when = NEVER if then is NEVER else NOW
        return [head, ChangeRow(flow=flow, change=change, key=", ".join(sorted(fields)), takes_effect=when)]
    return [head, *(_of_key(flow, change, key, keys[key], NEVER if _is_fixed(key, fields) else NOW) for key in own)]


def _is_fixed(key: str, fields: frozenset[str] | None) -> bool:
    """Whether one of the changed fields that cannot change is made of this key."""
    return any(key.endswith(FIXED[field]) for field in (fields or frozenset()) & FIXED.keys())


def _fingerprint(config: MirrorConfig, name: FlowName) -> str:
    return fingerprint_of("", config, config.flow(name))


def _of_key(flow: str, change: str, key: str, values: tuple[str, str], then: str) -> ChangeRow:
    return ChangeRow(flow=flow, change=change, key=key, running=values[0], new=values[1], takes_effect=then)


def _fixed(
    name: FlowName, fields: frozenset[str], own: Iterable[str], keys: Mapping[str, tuple[str, str]]
) -> list[str]:
    """Say which keys cannot change while the flow is mirrored, and what to do."""
    found = []
    for field in fields & FIXED.keys():
        made_of = [key for key in own if key.endswith(FIXED[field])]
        said = "; ".join(f"{key}: {keys[key][0]} -> {keys[key][1]}" for key in made_of) or field
        found.append(
            f"{name}: {said}: cannot change while the flow is mirrored, because {_WHY_FIXED[field]};"
            " end the mirror (raymirror stop), then start it with the new file (raymirror run)"
        )
    return sorted(found)


def _of_mirror(
    keys: Mapping[str, tuple[str, str]], homes: Mapping[str, tuple[FlowName, ...]], running: ConfigSide, new: ConfigSide
) -> list[ChangeRow]:
    rows = []
    for key, values in keys.items():
        part = _wide_part(key, running, new)
        if part:
            rows.append(_of_key(MIRROR, CHANGED, key, values, _WHEN.get(part, NOW)))
        elif not homes[key]:
            rows.append(_of_key(NOWHERE, CHANGED, key, values, NOTHING))
    return rows


def _wide_part(key: str, running: ConfigSide, new: ConfigSide) -> str:
    """Name the part of the configuration beside its flows that a key belongs to, where it made that part another."""
    parts = changed(settings_of_mirror(running.config), settings_of_mirror(new.config))
    return next((part for part, keys in _WIDE.items() if part in parts and key.startswith(keys)), "")
