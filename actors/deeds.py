"""What takes longer than a step: a set that moves, one that is taken over, a fleet that grows or shrinks. No await.

Each is told once, when it is over: a move from the moment it was wanted until its new owner copies, a takeover from
the moment its owner's end was seen. What is asked for anew meanwhile begins anew.
"""

from collections.abc import Callable, Iterable

import msgspec

from actors.desk import FlowDesk
from actors.states import CopierState
from policies.model import FlowName
from policies.words import counted

MOVE, TAKEOVER, SCALING = "move set", "take over set", "scale"
_ON_THE_WAY = ("acquiring", "stopped")


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is over. Seconds of the supervisor's clock; `about`: the set, or how many copiers there are."""

    name: str
    flow: FlowName
    about: str
    began_s: float
    ended_s: float
    giver: str = ""
    taker: str = ""


class _Begun(msgspec.Struct, frozen=True):
    name: str
    at_s: float
    giver: str


class Deeds:
    """The deeds of one flow; `tell` hears of each that is over."""

    def __init__(self, desk: FlowDesk, tell: Callable[[Deed], None]) -> None:
        self._desk, self._tell = desk, tell
        self._begun: dict[str, _Begun] = {}
        self._wanted = desk.copiers_wanted
        self._scaling_since_s: float | None = None

    def lost(self, copier_id: str, set_ids: Iterable[str], now_s: float) -> None:
        """A copier has ended, and these sets have no owner."""
        self._begun |= dict.fromkeys(set_ids, _Begun(TAKEOVER, now_s, copier_id))

    def look(self, now_s: float) -> None:
        """See what has begun and what is over; costs nothing while nothing is on its way."""
        ledger = self._desk.ledger
        for set_id in ledger.leaving:
            if set_id not in self._begun:
                self._begun[set_id] = _Begun(MOVE, now_s, ledger.owner[set_id])
        for set_id, begun in list(self._begun.items()):
            if not (group := ledger.sets.get(set_id)) or not group.lanes:
                del self._begun[set_id]
            elif set_id not in ledger.leaving and self._copies(set_id):
                del self._begun[set_id]
                taker = ledger.owner[set_id]
                self._over(begun.name, set_id, begun.at_s, now_s, giver=begun.giver, taker=taker)
        self._look_at_fleet(now_s)

    def _copies(self, set_id: str) -> bool:
        """Whether a set's owner holds it at its present epoch, every lane on its way no more."""
        seat = self._desk.seats.get(self._desk.ledger.owner.get(set_id, ""))
        if seat is None or seat.report is None:
            return False
        group = self._desk.ledger.sets[set_id]
        if seat.report.held.get(set_id) != group.epoch:
            return False
        states = {lane.lane: lane.state for lane in seat.report.progress.lanes}
        return all(states.get(lane.source, _ON_THE_WAY[0]) not in _ON_THE_WAY for lane in group.lanes)

    def _look_at_fleet(self, now_s: float) -> None:
        if self._desk.copiers_wanted != self._wanted:
            self._wanted, self._scaling_since_s = self._desk.copiers_wanted, now_s
        if self._scaling_since_s is None:
            return
        seats = self._desk.seats.values()
        if len(seats) == self._wanted and all(seat.state is CopierState.READY for seat in seats):
            self._over(SCALING, counted(self._wanted, "copier"), self._scaling_since_s, now_s)
            self._scaling_since_s = None

    def _over(self, name: str, about: str, began_s: float, now_s: float, *, giver: str = "", taker: str = "") -> None:
        flow = self._desk.flow
        self._tell(Deed(name=name, flow=flow, about=about, began_s=began_s, ended_s=now_s, giver=giver, taker=taker))
