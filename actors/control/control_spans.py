"""Measures work that takes longer than a step: a set moves, a set is taken over, a fleet grows or shrinks. No await.

Each span is reported once, when it is over. A move lasts from its request until the new owner copies. A takeover lasts
from the moment the owner's end was seen until the new owner copies. A new request restarts the measurement.
"""

from collections.abc import Iterable

import msgspec

from actors.control.flow_state import FlowState
from actors.control.ports import ControlSpan, Observer
from actors.model.states import CopierState
from policies.model import TopicPartition
from policies.words import counted

MOVE, TAKEOVER, SCALING = "move set", "take over set", "scale"
_ON_THE_WAY = ("acquiring", "stopped")
_States = dict[str, dict[TopicPartition, str]]
"""The state of each lane, by copier."""


class _Begun(msgspec.Struct, frozen=True):
    name: str
    at_s: float
    giver: str


class ControlSpans:
    """The control spans of one flow; `observer` receives each one when it is over."""

    def __init__(self, flow_state: FlowState, observer: Observer) -> None:
        self._flow_state, self._observer = flow_state, observer
        self._begun: dict[str, _Begun] = {}
        self._wanted = flow_state.copiers_wanted
        self._scaling_since_s: float | None = None

    def lost(self, copier_id: str, set_ids: Iterable[str], now_s: float) -> None:
        """Note that a copier has ended, and that these sets have no owner."""
        self._begun |= dict.fromkeys(set_ids, _Begun(TAKEOVER, now_s, copier_id))

    def update(self, now_s: float) -> None:
        """Note what has begun and what is over; costs nothing while no work is in progress."""
        states: _States = {}
        ownership = self._flow_state.ownership
        for set_id in ownership.leaving:
            if set_id not in self._begun:
                self._begun[set_id] = _Begun(MOVE, now_s, ownership.owner[set_id])
        for set_id, begun in list(self._begun.items()):
            if not (group := ownership.sets.get(set_id)) or not group.lanes:
                del self._begun[set_id]
            elif set_id not in ownership.leaving and self._copies(set_id, states):
                del self._begun[set_id]
                taker = ownership.owner[set_id]
                self._over(begun.name, set_id, begun.at_s, now_s, giver=begun.giver, taker=taker)
        self._update_scaling(now_s)

    def _copies(self, set_id: str, known: _States) -> bool:
        """Whether a set's owner holds it at its present epoch, and no lane is still acquiring or stopped.

        `known`: the states of copiers that were looked at in this step. A copier may have thousands of sets.
        """
        owner = self._flow_state.ownership.owner.get(set_id, "")
        handle = self._flow_state.handles.get(owner)
        if handle is None or handle.report is None:
            return False
        group = self._flow_state.ownership.sets[set_id]
        if handle.report.held.get(set_id) != group.epoch:
            return False
        if (states := known.get(owner)) is None:
            states = known[owner] = {lane.lane: lane.state for lane in handle.report.progress.lanes}
        return all(states.get(lane.source, _ON_THE_WAY[0]) not in _ON_THE_WAY for lane in group.lanes)

    def _update_scaling(self, now_s: float) -> None:
        if self._flow_state.copiers_wanted != self._wanted:
            self._wanted, self._scaling_since_s = self._flow_state.copiers_wanted, now_s
        if self._scaling_since_s is None:
            return
        handles = self._flow_state.handles.values()
        if len(handles) == self._wanted and all(handle.state is CopierState.READY for handle in handles):
            self._over(SCALING, counted(self._wanted, "copier"), self._scaling_since_s, now_s)
            self._scaling_since_s = None

    def _over(self, name: str, about: str, began_s: float, now_s: float, *, giver: str = "", taker: str = "") -> None:
        flow = self._flow_state.flow
        self._observer.record(
            ControlSpan(name=name, flow=flow, about=about, began_s=began_s, ended_s=now_s, giver=giver, taker=taker)
        )
