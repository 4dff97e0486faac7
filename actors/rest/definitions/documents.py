"""A sentence for each setting: what it does here, or why it has no effect, from the table of keys (`policies/keys`)."""

import re
from collections.abc import Mapping
from typing import Final

from policies.keys.explain import LOGIN
from policies.keys.table import KAFKA_TABLES, KafkaTable, KeyAnswer

_OF_CONNECTORS: Final[Mapping[str, str]] = {
    "name": "the flow and the short name of the class",
    "connector.class": "MM2's class that this connector stands for",
    "source.cluster.alias": "the source of the flow, as the file names it",
    "target.cluster.alias": "the target of the flow, as the file names it",
    "config.providers": "the names of providers that resolve placeholders",
}
"""Settings that a connector has and a file of MM2 has not, or means otherwise."""
_PLACES: Final = ("flow", "filter"), ("cluster", LOGIN)
_LINK: Final = re.compile(r"\[([^]]*)\]\([^)]*\)")
"""A link of Markdown: its words stay."""


def document_of(name: str) -> str:
    """Return what a setting does here. Raises LookupError for a setting that no class defines."""
    if name in _OF_CONNECTORS:
        return _sentence(_OF_CONNECTORS[name])
    for table in KAFKA_TABLES:
        if table.levels in _PLACES and (found := table.answer(name)) is not None:
            return _sentence(_worded(table, name, *found))
    raise LookupError(name)


def _worded(table: KafkaTable, name: str, answer: KeyAnswer, why: str) -> str:
    row = table.read(name)
    if row is not None:
        return "; ".join(filter(None, (row.meaning, row.differs))) or "as in MM2"
    return f"{'refused' if answer is KeyAnswer.REFUSED else 'has no effect'}: {why}"


def _sentence(text: str) -> str:
    plain = _LINK.sub(r"\1", text).replace("`", "").strip()
    return f"{plain[:1].upper()}{plain[1:].removesuffix('.')}."
