"""Finds the topic config that a cluster does not know, from the text by which it refuses a topic.

A broker refuses the whole topic for one such config, and names the first that it meets: `Unknown topic config name: x`
(Kafka's LogConfig.validateNames; the same from controllers with ZooKeeper and with KRaft). The error code is no help:
INVALID_CONFIG also stands for a value that a known config cannot have.
"""

import re
from collections.abc import Iterable

_SAYS_UNKNOWN = re.compile(r"\bunknown\b", re.IGNORECASE)
_NAME = r"(?<![\w.-]){}(?!\.?[\w-])"


def unknown_config(text: str, names: Iterable[str]) -> str | None:
    """Return which of these configs a refusal says to be unknown; None if it is about something else."""
    if not _SAYS_UNKNOWN.search(text):
        return None
    named = (name for name in names if re.search(_NAME.format(re.escape(name)), text))
    return max(named, key=len, default=None)


def how_to_settle(name: str) -> str:
    """Say what would be right for a config that the target does not know."""
    return f"upgrade the target, or add {name} to config.properties.exclude"
