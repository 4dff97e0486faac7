"""The steps of every operation between two clusters, in order: what each needs, what undoes it, where return ends.

A step may run twice: a driver that is killed in it leaves it begun, and the next driver runs it again. So a step first
reads what is there. An abort undoes the begun steps, the last one first; that may run twice as well.

An operation has at most one point of no return. Before its begin is stored, an abort leads back to what was before.
After that only forward is safe. Steps before it that name no undo change nothing that harms the old direction.
"""

from collections.abc import Mapping
from enum import Enum

import msgspec

from policies.dr.failback import FailbackChoice


class OperationKind(Enum):
    """What an operation does; the names are stable."""

    SWITCHOVER = "switchover"
    FAILOVER = "failover"
    FAILBACK = "failback"
    DRILL = "drill"
    MOVE = "move"
    MOVE_BACK = "move-back"


class FlowSide(Enum):
    """One of the two clusters of a flow."""

    SOURCE = "source"
    TARGET = "target"


BOTH = (FlowSide.SOURCE, FlowSide.TARGET)


class StepRule(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table: the name of a step, and what it does.

    `needs`: clusters that must answer. `undo`: what takes it back, empty if nothing must be taken back; `undo_needs`:
    clusters that must answer for that. `ends_return`: once this step has begun, the operation cannot be aborted.
    `ends_release`: once it has begun, the source is not any more what its applications left, so it cannot serve.
    """

    name: str
    does: str
    needs: tuple[FlowSide, ...] = BOTH
    undo: str = ""
    undo_needs: tuple[FlowSide, ...] = ()
    ends_return: bool = False
    ends_release: bool = False


SWITCHOVER = (
    StepRule(name="check", does="check that a switchover may begin"),
    StepRule(
        name="fence",
        does="refuse writes to the source topics for every producer, and note where their logs end",
        undo="take away what the fence has made",
        undo_needs=(FlowSide.SOURCE,),
    ),
    StepRule(name="drain", does="wait until the target has every record of the source"),
    StepRule(name="pause", does="pause the flow, so that its positions are exact", undo="copy again", undo_needs=BOTH),
    StepRule(name="groups", does="commit the translated offsets of all consumer groups on the target"),
    StepRule(
        name="positions",
        does="store where the reverse flow starts: behind what both clusters have",
        undo="remove these positions",
        undo_needs=(FlowSide.SOURCE,),
    ),
    StepRule(name="settle", does="check that nothing was written behind the fence; drain it if something was"),
    StepRule(
        name="reverse",
        does="stop the flow for good, open the target to producers, start the reverse flow",
        ends_return=True,
    ),
    StepRule(name="watch", does="check again that nothing was written behind the fence"),
)

_PREPARATION = (
    StepRule(
        name="check", does="check that the flow was failed over, and that its reverse flow has copied nothing since"
    ),
    StepRule(
        name="fence",
        does="refuse writes to the source topics for every producer",
        undo="take away what the fence has made",
        undo_needs=(FlowSide.SOURCE,),
    ),
    StepRule(
        name="retention",
        does="let the source's topics delete nothing by time, before anything is counted",
        undo="restore their retention",
        undo_needs=(FlowSide.SOURCE,),
    ),
    StepRule(name="count", does="find the exact end of each copy, and refuse what would do harm"),
    StepRule(name="export", does="write to files what only the source has"),
)
_LATE = StepRule(name="late-copy", does="copy that to the target, and note where it lies there", ends_return=True)
_ANEW = StepRule(
    name="make-anew",
    does="delete the source topics that must be equal to their copies, create them again",
    ends_release=True,
)
_WAY_BACK = (
    StepRule(name="turn", does="store where the reverse flow starts: behind what both clusters have"),
    StepRule(name="new-copy", does="copy to the source what only the target has", ends_release=True),
    StepRule(name="groups", does="commit for each group on the source the first record that it has not read"),
    StepRule(name="close", does="restore the retention, and let the reverse flow run"),
)

MOVE = (
    StepRule(name="check", does="check that all consumers of the topics have moved, and that their producers may"),
    StepRule(
        name="fence",
        does="refuse writes to these topics on the source for every producer",
        undo="take away what the fence has made",
        undo_needs=(FlowSide.SOURCE,),
    ),
    StepRule(name="drain", does="wait until the target has every record of these topics"),
    StepRule(name="groups", does="commit where consumers start in the topics that producers will write to"),
    StepRule(name="settle", does="check that nothing was written behind the fence; drain it if something was"),
    StepRule(name="hand-over", does="open the target to the producers, note that they have moved", ends_return=True),
    StepRule(name="watch", does="check again that nothing was written behind the fence"),
)
MOVE_BACK = (
    StepRule(name="check", does="check that producers wrote nothing to the target since they moved"),
    StepRule(
        name="release",
        does="let the flow copy these topics again",
        undo="pause them as before",
        undo_needs=(FlowSide.TARGET,),
    ),
    StepRule(name="hand-back", does="open the source to the producers, forget that they have moved", ends_return=True),
)
FAILBACK = (*_PREPARATION, _LATE, *_WAY_BACK)
FAILBACKS: Mapping[FailbackChoice, tuple[StepRule, ...]] = {
    FailbackChoice.KEEP: FAILBACK,
    FailbackChoice.APPEND: (*_PREPARATION, _LATE, _ANEW, *_WAY_BACK),
    FailbackChoice.DISCARD: (*_PREPARATION, msgspec.structs.replace(_ANEW, ends_return=True), *_WAY_BACK),
}
"""The steps of a failback, by its choice: what discards copies nothing late, so deleting topics ends the return."""

CHOICE, EXPORT, MAKE_ANEW = "choice", "export", "make-anew"
"""The names under which a failback stores what the operator has chosen: the choice, a folder, and whether topics of the
source may be deleted."""

TABLES: Mapping[OperationKind, tuple[StepRule, ...]] = {
    OperationKind.SWITCHOVER: SWITCHOVER,
    OperationKind.FAILBACK: FAILBACK,
    OperationKind.MOVE: MOVE,
    OperationKind.MOVE_BACK: MOVE_BACK,
}
"""The steps of each kind. Operations of a kind without a table are shown, and not driven."""


def steps_of(kind: str, choices: Mapping[str, object]) -> tuple[StepRule, ...]:
    """Return the steps of an operation by its kind and its choices; none if this version does not know them."""
    if kind == OperationKind.FAILBACK.value and CHOICE in choices:
        return next((steps for choice, steps in FAILBACKS.items() if choice.value == choices[CHOICE]), ())
    return next((steps for one, steps in TABLES.items() if one.value == kind), ())
