"""What the commands' JSON says: who reads records again, what is lost, what a drill has found. Pure."""

import base64
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from bench.dr.kills import OF_SOURCE, Victim
from bench.dr.records import RecordId, id_of

_OF_A_DEAD_BROKER: Mapping[Victim, Collection[str]] = {
    Victim.TARGET_BROKER: ("too-few-in-sync", "no-leader", "cannot-produce"),
    Victim.TARGET_CUT: ("cannot-produce",),
    **dict.fromkeys(OF_SOURCE, ("not-drained", "group-failed", "consumer-failed")),
}
"""Findings of a drill that are true of a cluster of which a broker has just died, or which was cut off."""
_UNKNOWN = ("is not known", "cannot be compared", "without an answer")
"""Words of findings that say no more than that a broker of the source does not answer."""


def unequal_in_failover(answer: Mapping[str, Any], groups: Collection[str]) -> frozenset[str]:
    """Return the groups that a failover does not call equal; one that it does not name is none."""
    standing = answer.get("standing", {})
    stands = standing.get("stands", ())
    named = {one["group"] for one in stands if one["why"]} | set(standing.get("failed", ()))
    told = {one["group"] for one in stands}
    return frozenset(group for group in groups if group in named or group not in told)


def unequal_in_failback(rows: Iterable[Mapping[str, Any]], groups: Collection[str]) -> frozenset[str]:
    """Return the groups that a failback does not call exact, by its rows; one that it does not name is none."""
    is_exact: dict[str, bool] = {}
    for one in rows:
        is_exact[one["group"]] = is_exact.get(one["group"], True) and one["reason"] == "exact" and not one["why"]
    return frozenset(group for group in groups if not is_exact.get(group, False))


def group_rows(answer: Mapping[str, Any], stored: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the rows of groups of a failback: from its own answer, or from what is stored of it if that was killed."""
    if "groups" in answer:
        return list(answer["groups"])
    return list(stored.get("rows", {}).get("groups", ()))


def hurts(answer: Mapping[str, Any], victim: Victim | None) -> tuple[list[str], list[str]]:
    """Return what a drill has found that would have hurt: what the kill explains, and everything else."""
    explained = _OF_A_DEAD_BROKER.get(victim, ()) if victim is not None else ()
    notes: list[str] = []
    faults: list[str] = []
    for one in answer.get("findings", ()):
        if one["hurts"]:
            text = f"the drill found {one['name']} of {one['subject']}: {one['why']}"
            is_explained = one["name"] in explained and (
                victim not in OF_SOURCE or any(words in one["why"] for words in _UNKNOWN)
            )
            (notes if is_explained else faults).append(text)
    return notes, faults


def judge_preview(said: int, lost: int, *, stopped_in_order: bool) -> tuple[list[str], list[str]]:
    """Compare the records that a preview calls lost with those that are: notes, and faults.

    Less is a fault always. More is none if the mirror was killed: positions may then be a second old (docs/dr.md).
    """
    text = f"the preview says that {said} records are lost, {lost} are"
    if said == lost:
        return [], []
    return ([text], []) if said > lost and not stopped_in_order else ([], [text])


def exported(texts: Iterable[str], topics: Mapping[str, str]) -> Iterator[RecordId]:
    """Yield the records of exported files; `topics`: the writers' name of each."""
    for text in texts:
        head, *lines = text.splitlines()
        topic = topics[json.loads(head)["topic"]]
        for line in lines[:-1]:
            yield id_of(base64.b64decode(json.loads(line)["value"]), topic)
