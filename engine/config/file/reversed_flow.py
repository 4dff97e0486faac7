"""Derives the configuration of the reverse flow from a file that enables only the flow: what a switchover starts.

    A->B.enabled = true            A->B.enabled = false
    A->B.topics = orders     ->    A->B.topics = orders
                                   B->A.enabled = true
                                   B->A.topics = orders      (a setting of A->B that B->A does not have)

Under the identity policy both flows cannot be enabled at once: they would copy in a loop.
"""

import re
from collections.abc import Mapping

import msgspec

from engine.config.file.properties import Properties, Property
from policies.model import FlowName


def reversed_settings(properties: Properties, flow: FlowName) -> dict[str, str]:
    """Return the settings that differ from the file's when the flow is off and its reverse is on."""
    back = FlowName(flow.target, flow.source)
    mirrored = {
        key.replace(f"{flow}.", f"{back}.", 1): entry.value
        for key, entry in properties.entries.items()
        if key.startswith(f"{flow}.")
    }
    found = {key: value for key, value in mirrored.items() if key not in properties.entries}
    return found | {f"{flow}.enabled": "false", f"{back}.enabled": "true"}


def reversed_properties(properties: Properties, flow: FlowName) -> Properties:
    """Return the properties of the reversed file."""
    changes = reversed_settings(properties, flow)
    entries = properties.entries | {key: Property(key, value, properties.line(key)) for key, value in changes.items()}
    return msgspec.structs.replace(properties, entries=entries)


def reversed_text(text: str, changes: Mapping[str, str]) -> str:
    """Return the text of a file with changed settings: where it sets them, else at its end.

    So a file that is turned again and again does not grow.
    """
    lines, left = list[str](), dict(changes)
    for line in text.splitlines():
        name = re.split(r"[=:\s]", line.strip(), maxsplit=1)[0]
        if name in left:
            lines.append(f"{name} = {left.pop(name)}")
        elif name not in changes:
            lines.append(line)
    lines += [f"{key} = {value}" for key, value in sorted(left.items())]
    return "".join(f"{line}\n" for line in lines)
