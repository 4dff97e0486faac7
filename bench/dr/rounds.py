"""Plays one seed: traffic, the operation with its kill, traffic on the other side, the judging."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from bench.dr import sides
from bench.dr.clients import ClientProcess
from bench.dr.commands import Outcome, WatchedCommand
from bench.dr.judge import GroupFault, Log, SideFault, judge_group, judge_side
from bench.dr.kills import Kill, Victim
from bench.dr.operations import Operation, Words, answer_of
from bench.dr.records import RecordId
from bench.dr.striking import strike
from bench.dr.traffic import KINDS, Traffic
from bench.dr.world import World
from bench.errors import BenchError

ATTEMPTS = 10
BEFORE_S, SHORT_S = 1.2, 0.4
WHOLE_S = 300.0
_POLL_S, _BETWEEN_S = 0.5, 1.0
_PASSING = ("too-few-in-sync", "no-leader", "cannot-produce")
"""Findings of a drill that tell of a broker that was killed in it."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One seed, as in the JSON. `killed`: empty if something was killed, else why not. `attempts`: commands until the
    operation had ended, with their last lines. `here`, `there`: faults of the cluster that served, and of the other.
    `excused`: records that only the old source has, as the operation says.
    """

    cell: str
    seed: int
    moment: str
    victim: str
    delay_s: float
    killed: str
    took_s: float
    operation_s: float
    attempts: list[str]
    records: int
    excused: int
    here: SideFault
    there: SideFault
    groups: dict[str, GroupFault]
    may_repeat: dict[str, bool]
    notes: list[str]
    failures: list[str]

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong."""
        groups = all(one.is_clean(may_repeat=self.may_repeat[kind]) for kind, one in self.groups.items())
        return groups and self.here.is_clean and self.there.is_clean and not self.failures


class Round:
    """One seed in a world."""

    def __init__(
        self,
        cell: str,
        operation: Operation,
        load: str,
        seed: int,
        kill: Kill | None,
        world: World,
        clients: Mapping[str, ClientProcess],
    ) -> None:
        self._cell, self._operation, self._load, self._seed, self._kill = cell, operation, load, seed, kill
        self._world = world
        self._here, self._there = world.here, world.there
        self._traffic = Traffic(world, clients, seed, load)
        self._first: dict[str, dict[Log, int]] = {}
        self._attempts: list[str] = []
        self._killed, self._operation_s = "nothing was to be killed" if kill is None else "", 0.0
        self._excused: frozenset[RecordId] = frozenset()
        self._may_repeat = dict.fromkeys(KINDS, False)
        self._notes: list[str] = []
        self._failures: list[str] = []

    def play(self) -> Row:
        """Play it. Raises BenchError if there is nothing to judge."""
        began = time.monotonic()
        self._world.wait_mirror()
        for alias in (self._here, self._there):
            self._first[alias] = sides.ends(self._world.servers(alias), self._world.names_on(alias))
        self._traffic.begin_groups(self._first[self._here])
        plays: dict[str, Callable[[], tuple[SideFault, SideFault]]] = {
            "switchover": self._switchover,
            "failover": self._failover,
            "drill": self._drill,
        }
        here, there = plays.get(self._operation.name, self._failback)()
        self._failures += self._traffic.faults
        wanted = self._wanted()
        compacted = (self._world.keys_topic,)
        groups = {kind: judge_group(wanted[kind], self._traffic.read[kind], compacted=compacted) for kind in KINDS}
        kill = self._kill
        return Row(
            cell=self._cell,
            seed=self._seed,
            moment=kill.moment.name if kill else "",
            victim=kill.victim.value if kill else "",
            delay_s=kill.delay_s if kill else 0.0,
            killed=self._killed,
            took_s=round(time.monotonic() - began, 1),
            operation_s=round(self._operation_s, 1),
            attempts=self._attempts,
            records=len(self._traffic.sent.acked),
            excused=len(self._excused),
            here=here,
            there=there,
            groups=groups,
            may_repeat=self._may_repeat,
            notes=self._notes,
            failures=self._failures,
        )

    # --- the operations ----------------------------------------------------------------------------------------------

    def _switchover(self) -> tuple[SideFault, SideFault]:
        world, traffic = self._world, self._traffic
        self._open(gated=True)
        self._operate(restart_mirror=True)
        traffic.stop_writing()
        self._turn()
        traffic.write(self._there, "n")
        traffic.start_reading(self._there, "y")
        time.sleep(BEFORE_S)
        traffic.stop_writing()
        traffic.end_reading("finish")
        world.wait_mirror()
        return self._judge_both()

    def _drill(self) -> tuple[SideFault, SideFault]:
        world, traffic = self._world, self._traffic
        traffic.start_reading(self._here, "x")
        traffic.write(self._here, "w")
        time.sleep(BEFORE_S)
        if self._load == "idle":
            traffic.stop_writing()
        outcome = self._operate(restart_mirror=True)
        if outcome is not None:
            self._judge_drill(answer_of(outcome))
        traffic.stop_writing()
        traffic.end_reading("finish")
        left = sides.names_on(world.servers(self._there), "raymirror-drill-")
        self._failures += [f"the drill has left {name}" for name in left]
        world.wait_mirror()
        return self._judge_both()

    def _failover(self) -> tuple[SideFault, SideFault]:
        world, traffic = self._world, self._traffic
        self._separate()
        try:
            outcome = self._operate(restart_mirror=False)
            self._say_repeats(outcome)
            traffic.stop_writing()
            traffic.write(self._there, "n")
            traffic.start_reading(self._there, "y")
            time.sleep(BEFORE_S)
            traffic.stop_writing()
            traffic.end_reading("finish")
            then = self._logs(self._there)
        finally:
            world.cluster(self._here).fronts.mend()
        lost = self._diverged()
        said = self._preview_lost()
        if self._logs(self._there) != then:
            self._failures.append("the old direction was copied again when the old source came back")
        if said != len(lost):
            self._failures.append(f"the preview says that {said} records are lost, {len(lost)} are")
        self._excused = frozenset(lost)
        there = judge_side(self._traffic.sent, self._logs(self._there), excused=lost, compacted=(world.keys_topic,))
        return SideFault(), there

    def _failback(self) -> tuple[SideFault, SideFault]:
        world, traffic = self._world, self._traffic
        self._separate()
        try:
            command = WatchedCommand(_failover_words(world), world.folder, world.env)
            outcome = command.wait()
        finally:
            world.cluster(self._here).fronts.mend()
        if outcome.code not in (0, 4):
            raise BenchError("dr", f"the failover before the failback: {outcome.told}")
        self._say_repeats(outcome)
        world.end_mirror()
        traffic.stop_writing()
        lost = self._diverged()
        traffic.write(self._there, "n", load="idle")
        traffic.start_reading(self._there, "y")
        time.sleep(SHORT_S)
        traffic.end_reading("stop")
        if self._load == "idle":
            traffic.stop_writing()
        else:
            traffic.write(self._there, "m")
        outcome_back = self._operate(restart_mirror=False)
        traffic.stop_writing()
        answer = answer_of(outcome_back) if outcome_back is not None else {}
        for kind in KINDS:
            told = [one for one in answer.get("groups", ()) if one["group"] == traffic.groups[kind]]
            is_equal = bool(told) and all(one["reason"] == "exact" and not one["why"] for one in told)
            self._may_repeat[kind] = self._may_repeat[kind] or not is_equal
        if "discard" in self._operation.name:
            self._excused = frozenset(lost)
        self._turn()
        traffic.start_reading(self._here, "z", KINDS[:1])  # one group goes home, the other one stays
        traffic.start_reading(self._there, "v", KINDS[1:])
        world.wait_mirror()
        faults = self._judge_both()
        traffic.end_reading("finish")
        return faults

    # --- their parts -------------------------------------------------------------------------------------------------

    def _open(self, *, gated: bool) -> None:
        """Write and read on the serving cluster; readers end in the middle, writers go on if the load is busy."""
        traffic = self._traffic
        traffic.start_reading(self._here, "x")
        traffic.write(self._here, "w", gated=gated)
        time.sleep(BEFORE_S)
        traffic.end_reading("stop")
        if self._load == "idle":
            time.sleep(SHORT_S)
            traffic.stop_writing()

    def _separate(self) -> None:
        """Write and read on the serving cluster, and cut it off; what is written after that only it has."""
        world, traffic = self._world, self._traffic
        traffic.start_reading(self._here, "x")
        traffic.write(self._here, "w", load="idle")
        time.sleep(BEFORE_S)
        traffic.stop_writing()
        self._wait_copied()
        traffic.write(self._here, "u", keys=False)
        time.sleep(BEFORE_S)
        traffic.end_reading("stop")
        world.cluster(self._here).fronts.cut()
        if self._load == "idle":
            traffic.stop_writing()
            traffic.write(self._here, "d", keys=False)
        time.sleep(SHORT_S)
        traffic.stop_writing()

    def _wait_copied(self) -> None:
        self._wait_whole(lambda: self._judge(self._there))

    def _turn(self) -> None:
        """Let the other cluster serve: copies that keep their names need a mirror with the directions turned."""
        world = self._world
        if not world.renames or world.mirror is None or self._operation.kind == "failback":
            world.end_mirror()
            world.turn()
            world.start_mirror()
        else:
            world.turn()
            world.write_config()

    def _operate(self, *, restart_mirror: bool) -> Outcome | None:
        """Begin the operation, kill, and go on until it has ended; None: it ended with the killed command."""
        began, began_ms = time.monotonic(), int(time.time() * 1000)
        words = self._operation.begin(self._world)
        for number in range(ATTEMPTS):
            command = WatchedCommand(words, self._world.folder, self._world.env)
            if number == 0 and self._kill is not None:
                self._killed = strike(self._kill, command, self._world, seed=self._seed, restart_mirror=restart_mirror)
            outcome = command.wait()
            self._attempts.append(outcome.told)
            if outcome.code in self._operation.done:
                self._operation_s = time.monotonic() - began
                return outcome
            if number == 0 and self._kill is not None and self._kill.victim is Victim.RUN and restart_mirror:
                self._settle_mirror()
            following = self._next_words(began_ms)
            if following is None:
                self._operation_s = time.monotonic() - began
                return None
            words = following
        raise BenchError("dr", f"not done after {ATTEMPTS} commands: {' | '.join(self._attempts)}")

    def _settle_mirror(self) -> None:
        """Wait until a mirror that was started again answers; it ends if the flow was stopped for good."""
        if told := self._world.wait_answer():
            self._notes.append(f"the mirror that was started again ended: {told[-200:]}")

    def _next_words(self, began_ms: int) -> Words | None:
        """Return the command that goes on; None if the operation has ended."""
        time.sleep(_BETWEEN_S)
        if not self._operation.kind:
            return self._operation.again(self._world)
        world = self._world
        words = ("dr", "status", world.flow, "--config", str(world.config), "--json")
        outcome = WatchedCommand(words, world.folder, world.env).wait()
        if outcome.code not in (0, 1):
            return self._operation.again(world)
        stored = answer_of(outcome).get("operation")
        if outcome.code == 1:
            return self._operation.again(world)
        is_new = stored is not None and stored["began_ms"] >= began_ms and stored["kind"] == self._operation.kind
        if is_new and stored["state"] == "finished":
            return None
        return self._operation.begin(world)

    def _say_repeats(self, outcome: Outcome | None) -> None:
        """Note which groups the failover calls not equal: they may read records again."""
        answer = answer_of(outcome) if outcome is not None else {}
        standing = answer.get("standing", {"stands": [], "failed": {}})
        named = {one["group"] for one in standing["stands"] if one["why"]} | set(standing["failed"])
        told = {one["group"] for one in standing["stands"]}
        for kind, group in self._traffic.groups.items():
            self._may_repeat[kind] = group in named or group not in told

    def _judge_drill(self, answer: Any) -> None:
        hurts = [one for one in answer.get("findings", ()) if one["hurts"]]
        text = [f"the drill found {one['name']} of {one['subject']}: {one['why']}" for one in hurts]
        passing = [one["name"] in _PASSING and self._kill is not None for one in hurts]
        self._notes += [line for line, may in zip(text, passing, strict=True) if may]
        self._failures += [line for line, may in zip(text, passing, strict=True) if not may]

    # --- the judging -------------------------------------------------------------------------------------------------

    def _logs(self, alias: str) -> dict[Log, list[RecordId]]:
        world = self._world
        first = {} if self._operation.once else self._first[alias]
        return sides.read(world.servers(alias), world.names_on(alias), first)

    def _judge(self, alias: str) -> SideFault:
        excused = self._excused
        compacted = (self._world.keys_topic,)
        return judge_side(self._traffic.sent, self._logs(alias), excused=excused, compacted=compacted)

    def _judge_both(self) -> tuple[SideFault, SideFault]:
        self._wait_whole(lambda: self._judge(self._here))
        self._wait_whole(lambda: self._judge(self._there))
        return self._judge(self._here), self._judge(self._there)

    def _wait_whole(self, judged: Callable[[], SideFault]) -> None:
        give_up_at = time.monotonic() + WHOLE_S
        while judged().lost and time.monotonic() < give_up_at:
            time.sleep(_POLL_S)

    def _diverged(self) -> list[RecordId]:
        """Return what only the old source has: it must be the end of each log. Notes it as failed otherwise."""
        there = {one for log in self._logs(self._there).values() for one in log}
        lost: list[RecordId] = []
        for log, records in self._logs(self._here).items():
            alone = [one not in there for one in records]
            if sorted(alone) != alone:
                self._failures.append(f"{log[0]}-{log[1]}: the copy has holes behind what it lacks")
            lost += [one for one, is_alone in zip(records, alone, strict=True) if is_alone]
        return [one for one in lost if one.topic != self._world.keys_topic]

    def _preview_lost(self) -> int:
        world = self._world
        words = ("dr", "preview", world.flow, "--config", str(world.config), "--json")
        outcome = WatchedCommand(words, world.folder, world.env).wait()
        try:
            return sum(one["records"] for one in answer_of(outcome)["losses"])
        except (KeyError, json.JSONDecodeError) as error:
            raise BenchError("dr", f"the preview: {outcome.told}") from error

    def _wanted(self) -> dict[str, set[RecordId]]:
        """Return what each group must have read: all that both sides have, or for a failover, what it could read."""
        there = {one for log in self._logs(self._there).values() for one in log}
        if self._operation.name != "failover":
            here = {one for log in self._logs(self._here).values() for one in log}
            return dict.fromkeys(KINDS, (here | there) - self._excused)
        read = {kind: {one for log in self._traffic.read[kind].values() for one in log} for kind in KINDS}
        return {kind: there | (read[kind] & self._excused) for kind in KINDS}


def _failover_words(world: World) -> Words:
    return "failover", world.flow, "--config", str(world.config), "--timeout", "10", "--json"
