"""Finds the settings of a flow as MM2 would give them to its connectors (MirrorMakerConfig.connectorBaseConfig).

A connector's settings have no flow or cluster alias before them: `A->B.topics` is `topics`, and
`A.bootstrap.servers` is `source.cluster.bootstrap.servers`. Settings that may hold a password are left out.
"""

from collections.abc import Mapping
from typing import Final

from engine.config.file.properties import Properties, Property
from engine.config.flow_config import FlowReader
from engine.config.flow_keys import FlowKeys, Layer
from engine.config.property_reader import PropertyReader
from engine.config.secrets import SECURITY_KEYS, is_secret
from policies.model import FlowName

_PREFIXES: Final[Mapping[Layer, str]] = {
    FlowKeys.flow: "",
    FlowKeys.filter: "",
    FlowKeys.consumer: "source.consumer.",
    FlowKeys.producer: "producer.override.",
}
"""What a connector's settings of each level begin with; those of a worker are not a connector's."""


def connector_settings(plain: Mapping[str, str], flow: FlowName) -> dict[str, str]:
    """Return the settings of a flow that its file sets; `plain`: the file's, without passwords. Raises ConfigError."""
    found = {"source.cluster.alias": flow.source, "target.cluster.alias": flow.target, "enabled": "true"}
    return found | {name: plain[key] for name, key in setting_places(plain, flow).items()}


def setting_places(plain: Mapping[str, str], flow: FlowName) -> dict[str, str]:
    """Return the key of the file that sets each of a flow's settings. Raises ConfigError."""
    reader = PropertyReader(Properties("", {key: Property(key, value, 0) for key, value in plain.items()}, ()))
    flow_reader = FlowReader(reader, flow)
    flow_reader.read()
    found: dict[str, str] = {}
    for side, alias in (("source", flow.source), ("target", flow.target)):
        for name in ("bootstrap.servers", *SECURITY_KEYS):
            key = reader.first_key(f"{alias}.{name}", name)
            if key is not None and not is_secret(key):
                found[f"{side}.cluster.{name}"] = key
    for layer, name in tuple(flow_reader.keys.asked):  # asking adds to it
        key = layer(flow_reader.keys, name) if layer in _PREFIXES else ""
        if key in plain and not is_secret(key):
            found[f"{_PREFIXES[layer]}{name}"] = key
    return found
