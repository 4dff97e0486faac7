"""Compares the running configuration with another one, by flow and by key; the result has no passwords.

Pure: it gets both configurations and the plain settings of both files. A key that cannot change while a flow is
mirrored is refused by name; a key that is only read at a start is marked. All others take effect at once.
"""

from collections.abc import Mapping

import msgspec

from actors.config.effective import BESIDE, HTTP, SYNCS, changed, settings_of, settings_of_mirror
from actors.model.fingerprint import fingerprint_of
from engine.config.http.http_config import secrets_of
from engine.config.secrets import is_secret
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
STARTS = "now; it continues from its positions, if it has any"
DRAINS = "now; it is drained, its positions stay on the target"
SPARK_BEGINS_AGAIN = "now; Spark restarts with it"

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
"""Fields of a flow that say where its copies and positions are, and the keys that set them."""
_WHY_FIXED = {
    "naming": "the names of its copies come from the running replication policy",
    "positions_topic": "its positions are in the running topic",
    "connector": "its positions are stored under the running connector name",
    SYNCS: "consumer offsets are translated by the offset syncs in the running topic",
}
_WIDE = {
    "deployment_id": ("raymirror.deployment.id",),
    "telemetry": ("raymirror.metrics.", "raymirror.otlp."),
    HTTP: ("raymirror.http.",),
    "spark": ("raymirror.spark", "raymirror.storage.shared"),
    "storage": ("raymirror.storage",),
    "audit_days": ("raymirror.audit.",),
    "proof": ("raymirror.proof",),
    "is_watched": ("raymirror.reload",),
    "fence_command": ("raymirror.dr.fence.command",),
    "move_command": ("raymirror.move.command",),
}
_WHEN = {"deployment_id": NEXT_START, "spark": SPARK_BEGINS_AGAIN, "proof": SPARK_BEGINS_AGAIN}


class ChangeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line: a whole flow (no key), or a key of the file. Values are as in the file, or hidden."""

    flow: str
    change: str
    key: str = ""
    running: str = ""
    new: str = ""
    takes_effect: str = ""


class ConfigDifference(msgspec.Struct, frozen=True, kw_only=True):
    """What another configuration changes; `refused` says what cannot change while the mirror runs."""

    running: str
    """sha256 of the running file."""
    new: str
    rows: tuple[ChangeRow, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def is_none(self) -> bool:
        """Whether no setting in use changes; the bytes of the file may differ."""
        return all(row.change == UNTOUCHED or row.takes_effect == NOTHING for row in self.rows)

    def named(self, change: str) -> tuple[str, ...]:
        """Name the flows that are added, removed, changed or untouched."""
        return tuple(row.flow for row in self.rows if row.change == change and not row.key)


class ConfigSide(msgspec.Struct, frozen=True):
    """One side of a comparison: the configuration, the settings of its file that may be shown, the file's sha256."""

    config: MirrorConfig
    plain: Mapping[str, str]
    digest: str


def difference(running: ConfigSide, new: ConfigSide) -> ConfigDifference:
    """Compare the running configuration with the new one."""
    found = _Comparison(running, new)
    rows: list[ChangeRow] = []
    refused: list[str] = []
    for name in found.names:
        rows += found.rows_of(name)
        refused += found.refusals_of(name)
    rows += found.rows_of_mirror()
    return ConfigDifference(running=running.digest, new=new.digest, rows=tuple(rows), refused=tuple(refused))


class _Comparison:
    """The fields and the keys that differ between two configurations, and the flows that each key belongs to."""

    def __init__(self, running: ConfigSide, new: ConfigSide) -> None:
        self._running, self._new = running, new
        before = {flow.name: flow for flow in running.config.flows}
        self._after = {flow.name: flow for flow in new.config.flows}
        self.names = list(dict.fromkeys([*before, *self._after]))
        self._fields = {
            name: changed(settings_of(running.config, flow), settings_of(new.config, self._after[name])) - {BESIDE}
            for name, flow in before.items()
            if name in self._after
        }
        """The fields that differ, by flow, for flows that both configurations have."""
        self._wide = changed(settings_of_mirror(running.config), settings_of_mirror(new.config))
        self._keys = self._changed_keys()
        """The keys that differ, with both values; keys that may hold a password are compared, but not shown."""
        self._homes = {key: self._home(key) for key in self._keys}

    def _changed_keys(self) -> dict[str, tuple[str, str]]:
        before, after = self._running.plain, self._new.plain
        plain = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
        found = {key: (before.get(key, NOT_SET), after.get(key, NOT_SET)) for key in plain}
        former, later = _secrets(self._running.config), _secrets(self._new.config)
        for key in sorted(former.keys() | later.keys()):
            if former.get(key) != later.get(key):
                found[key] = (HIDDEN if key in former else NOT_SET, HIDDEN if key in later else NOT_SET)
        return found

    def _home(self, key: str) -> tuple[FlowName, ...]:
        """Return the flows that a changed key may affect.

        Added and removed flows only by their own keys, or if no flow that stays uses the key.
        """
        if self._wide_part(key):
            return ()
        own = tuple(name for name in self.names if key.startswith(f"{name}."))
        if own:
            return tuple(name for name in own if self._fields.get(name, True))
        if "->" in key:
            return ()
        aliases = {*self._running.config.clusters, *self._new.config.clusters}
        alias = max((one for one in aliases if key.startswith(f"{one}.")), key=len, default=None)
        near = tuple(name for name in self.names if alias is None or alias in name)
        stays = tuple(name for name in near if self._fields.get(name))
        return stays or tuple(name for name in near if name not in self._fields)

    def _wide_part(self, key: str) -> str:
        """Return the changed part of the configuration outside the flows that a key belongs to; empty if none."""
        return next((part for part, keys in _WIDE.items() if part in self._wide and key.startswith(keys)), "")

    def _own(self, name: FlowName) -> list[str]:
        return [key for key, home in self._homes.items() if name in home]

    def rows_of(self, name: FlowName) -> list[ChangeRow]:
        """Return the rows of a flow: one for the whole flow, then one for each of its keys."""
        flow, own, fields = str(name), self._own(name), self._fields.get(name)
        if fields is None:
            change, then = (ADDED, STARTS) if name in self._after else (REMOVED, DRAINS)
        elif not fields:
            return [ChangeRow(flow=flow, change=UNTOUCHED)]
        else:
            before, after = (
                fingerprint_of("", side.config, side.config.flow(name)) for side in (self._running, self._new)
            )
            change, then = CHANGED, NEVER if fields & FIXED.keys() else STAYS if before == after else MOVES
        head = ChangeRow(flow=flow, change=change, takes_effect=then)
        if fields and not own:  # no single key caused the change
            when = NEVER if then is NEVER else NOW
            return [head, ChangeRow(flow=flow, change=change, key=", ".join(sorted(fields)), takes_effect=when)]
        fixed = [ending for field in (fields or frozenset()) & FIXED.keys() for ending in FIXED[field]]
        return [head, *(self._row(flow, change, key, NEVER if key.endswith(tuple(fixed)) else NOW) for key in own)]

    def refusals_of(self, name: FlowName) -> list[str]:
        """Say which keys cannot change while the flow is mirrored, and what to do."""
        found = []
        for field in self._fields.get(name, frozenset()) & FIXED.keys():
            made_of = [key for key in self._own(name) if key.endswith(FIXED[field])]
            said = "; ".join(f"{key}: {self._keys[key][0]} -> {self._keys[key][1]}" for key in made_of) or field
            found.append(
                f"{name}: {said}: cannot change while the flow is mirrored, because {_WHY_FIXED[field]};"
                " stop the mirror (raymirror stop), then start it with the new file (raymirror run)"
            )
        return sorted(found)

    def rows_of_mirror(self) -> list[ChangeRow]:
        """Return the rows of keys that belong to no flow."""
        rows = []
        for key in self._keys:
            if part := self._wide_part(key):
                rows.append(self._row(MIRROR, CHANGED, key, _WHEN.get(part, NOW)))
            elif not self._homes[key]:
                rows.append(self._row(NOWHERE, CHANGED, key, NOTHING))
        return rows

    def _row(self, flow: str, change: str, key: str, then: str) -> ChangeRow:
        running, new = self._keys[key]
        return ChangeRow(flow=flow, change=change, key=key, running=running, new=new, takes_effect=then)


def _secrets(config: MirrorConfig) -> dict[str, str]:
    clusters = list(config.clusters.values())
    for flow in config.flows:
        for alias, cluster in config.clusters.items():
            clusters += (cluster.for_client(client.login) for client in flow.clients_at(alias) if client.login)
    of_clusters = {
        cluster.places.get(name, (f"{cluster.alias}.{name}", 0))[0]: value
        for cluster in clusters
        for name, value in cluster.security.items()
        if is_secret(name, value)
    }
    return of_clusters | secrets_of(config.http)
