"""Why a key has no effect, where that can be told: the mistakes people make in `mm2.properties`."""

import re
from collections.abc import Sequence

_RENAMED = {"topics.blacklist": "topics.exclude", "groups.blacklist": "groups.exclude"}
_RENAMED["config.properties.blacklist"] = "config.properties.exclude"
_TOP_LEVEL_ONLY_IN_NAME = re.compile(r"(?:producer|consumer|admin)\.|offset\.flush\.|exactly\.once\.source\.support$")
_FILTERS_OWN = ("use.defaults.from",)
"""Read by a filter class, which sees what stands at a flow only."""
_FLOW = re.compile(r"(?P<flow>.+->.+?)\.(?P<rest>(?:producer|enable)(?:\..+)?)")
_BOOTSTRAP = re.compile(r"(?P<alias>.+)\.bootstrap\.servers")


def explain(key: str, aliases: Sequence[str]) -> str | None:
    """Return why a key does nothing, in MM2 as here, and what to write; None where nothing is known of it."""
    for old, new in _RENAMED.items():
        if key == old or key.endswith(f".{old}"):
            return f"ignored, as in Kafka 4.0 and newer; write {new}"
    if key == "emit.heartbeats" or key.endswith(".emit.heartbeats"):
        return "ignored, as in MM2; the key is emit.heartbeats.enabled"
    if key in _FILTERS_OWN:
        return f"reaches nothing at top level, as in MM2; write A->B.{key} for each flow"
    if _TOP_LEVEL_ONLY_IN_NAME.match(key):
        return f"reaches nothing at top level, as in MM2; write {aliases[0]}.{key}"
    if (found := _BOOTSTRAP.fullmatch(key)) and "->" not in key:
        return f"cluster {found['alias']!r} is not in clusters; add it there, or remove the line"
    return _of_flow(key)


def _of_flow(key: str) -> str | None:
    found = _FLOW.fullmatch(key)
    if found is None:
        return None
    flow, rest = found["flow"], found["rest"]
    if rest == "enable":
        return f"ignored, as in MM2; the key is {flow}.enabled"
    if rest.startswith("producer.") and not rest.startswith("producer.override."):
        return f"never reaches the producer of the data, as in MM2; write {flow}.producer.override{rest[8:]}"
    return None
