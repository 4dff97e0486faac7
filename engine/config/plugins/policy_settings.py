"""The settings that a policy of the user may read: those that MM2 hands to its Java classes."""

from collections.abc import Iterator, Mapping

from engine.config.property_reader import PropertyReader
from engine.config.secrets import is_secret
from policies.keys.table import KAFKA_TABLES
from policies.model import FlowName

_FAMILY = "replication.policy"
"""The beginning of top-level keys that MM2 hands to connectors, whatever follows (MirrorMakerConfig)."""


class PolicySettings(Mapping[str, str]):
    """The keys of a flow without `A->B.`, and the top-level keys that MM2's connectors know; the flow's own win.

    A key that is read counts as honoured. Values with placeholders are left out: they may be secrets, and policies are
    sent to other processes.
    """

    def __init__(self, reader: PropertyReader, flow: FlowName) -> None:
        self.used: dict[str, str] = {}
        """What was read, by name."""
        self._reader = reader
        self._fixed = {"source.cluster.alias": flow.source, "target.cluster.alias": flow.target}
        own = f"{flow}."
        known = {name for name in reader.names() if _reaches_connectors(name)}
        found = {name: name for name in known}
        found |= {name.removeprefix(own): name for name in reader.names() if name.startswith(own)}
        values = reader.values()
        self._keys = {
            name: key for name, key in found.items() if not is_secret(key, values[key]) and reader.is_plain(key)
        }

    def __getitem__(self, name: str) -> str:
        if name in self._fixed:
            return self._fixed[name]
        value = self._reader.raw(self._keys[name]) or ""
        self.used[name] = value.strip()
        return self.used[name]

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the settings alone: a policy that keeps this object must not carry the whole file and its secrets."""
        values = self._reader.values()
        return dict, ({name: values[key].strip() for name, key in self._keys.items()} | self._fixed,)

    def __iter__(self) -> Iterator[str]:
        return iter({**self._keys, **self._fixed})

    def __len__(self) -> int:
        return len({**self._keys, **self._fixed})


def _reaches_connectors(name: str) -> bool:
    connectors = KAFKA_TABLES[0]
    return name.startswith(_FAMILY) or name in connectors.unread or connectors.read(name) is not None
