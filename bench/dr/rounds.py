"""Plays one seed: traffic, the operation with its kill, traffic on the other side, the judging."""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from bench.dr import sides
from bench.dr.clients import ClientProcess
from bench.dr.judge import (
    Diverged,
    GroupFault,
    Log,
    Sent,
    SideFault,
    diverged,
    grown,
    judge_group,
    judge_side,
    unlike,
    wanted_of,
)
from bench.dr.kills import OF_MIRROR, Kill, Victim
from bench.dr.operations import Operation, Play, answer_of, failover_words
from bench.dr.records import RecordId
from bench.dr.reports import (
    exported,
    group_rows,
    hurts,
    judge_preview,
    unequal_in_failback,
    unequal_in_failover,
)
from bench.dr.steering import Steering
from bench.dr.striking import hit
from bench.dr.traffic import KINDS, Traffic
from bench.dr.world import World
from bench.errors import BenchError
from policies.dr.failback import FailbackChoice

BEFORE_S = 1.2
WHOLE_S = 180.0
_POLL_S = 0.5
_NAMES_DIFFER, _REFUSED = "names-differ", 4
Logs = Mapping[Log, list[RecordId]]


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
        self._compacted = (world.keys_topic,)
        self._traffic = Traffic(world, clients, seed, load)
        self._steering = Steering(operation, kill, world, seed)
        self._first: dict[str, dict[Log, int]] = {}
        self._operation_s = 0.0
        self._excused: frozenset[RecordId] = frozenset()
        """What the operation has reported as lost: on the old source alone, or nowhere if it discards."""
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
        plays: dict[Play, Callable[[], None]] = {
            Play.SWITCHOVER: self._switchover,
            Play.FAILOVER: self._failover,
            Play.FAILBACK: self._failback,
            Play.COPY_AGAIN: self._copy_again,
            Play.DRILL: self._drill,
        }
        plays[self._operation.play]()
        here, there, groups = self._judged()
        self._failures += self._traffic.faults
        kill = self._kill
        return Row(
            cell=self._cell,
            seed=self._seed,
            moment=kill.moment.name if kill else "",
            victim=kill.victim.value if kill else "",
            delay_s=kill.delay_s if kill else 0.0,
            killed=self._steering.killed,
            took_s=round(time.monotonic() - began, 1),
            operation_s=round(self._operation_s, 1),
            attempts=self._steering.attempts,
            records=len(self._traffic.sent.acked),
            excused=len(self._excused),
            here=here,
            there=there,
            groups=groups,
            may_repeat=self._may_repeat,
            notes=[*self._steering.notes, *self._notes],
            failures=self._failures,
        )

    # --- the operations: each leaves both sides whole, all writers and readers ended ---------------------------------

    def _switchover(self) -> None:
        world, traffic = self._world, self._traffic
        self._open(gated=True)
        self._timed(lambda: self._steering.operate(restart_mirror=True))
        traffic.stop_writing()
        self._turn()
        self._go_on(self._there)
        world.wait_mirror()
        self._wait_whole(self._here)
        self._wait_whole(self._there)

    def _drill(self) -> None:
        world, traffic = self._world, self._traffic
        traffic.start_reading(self._here, "x")
        self._write_a_while(self._here, "w")
        traffic.await_read()
        if self._load == "idle":
            traffic.stop_writing()
        outcome = self._timed(lambda: self._steering.operate(restart_mirror=True))
        notes, faults = hurts(answer_of(outcome) if outcome else {}, self._kill.victim if self._kill else None)
        self._notes += notes
        self._failures += faults
        traffic.stop_writing()
        traffic.end_reading("finish")
        for alias in (self._here, self._there):
            left = sides.names_on(world.servers(alias), "raymirror-drill-")
            self._failures += [f"the drill has left {name} on {alias}" for name in left]
        world.wait_mirror()
        self._wait_whole(self._here)
        self._wait_whole(self._there)

    def _failover(self) -> None:
        world, traffic = self._world, self._traffic
        self._separate()
        try:
            if self._operation.alone:
                world.kill_mirror()
            outcome = self._timed(lambda: self._steering.operate(restart_mirror=False))
            self._see_unequal(unequal_in_failover(answer_of(outcome) if outcome else {}, traffic.groups.values()))
            self._go_on(self._there)
            then = self._logs(self._there)
        finally:
            world.cluster(self._here).fronts.mend()
        if self._is_mirror_dead:
            self._return_mirror()
        lost = self._see_diverged()
        self._see_preview(lost)
        if more := grown(then, self._logs(self._there)):
            self._failures.append(f"the old direction was copied again when the old source came back: {more[0]}")
        self._excused = frozenset(lost.records)

    def _failback(self) -> None:
        world, traffic, operation = self._world, self._traffic, self._operation
        lost = self._fail_over()
        self._write_new()
        outcome = self._timed(lambda: self._steering.operate(restart_mirror=False))
        traffic.stop_writing()
        rows = group_rows(answer_of(outcome) if outcome else {}, self._steering.stored)
        self._see_unequal(unequal_in_failback(rows, traffic.groups.values()))
        self._see_exported(lost)
        if operation.choice is FailbackChoice.DISCARD:
            self._excused = frozenset(lost.records)
        self._turn()
        traffic.start_reading(self._here, "z", KINDS[:1])  # one group goes home, the other one stays
        traffic.start_reading(self._there, "v", KINDS[1:])
        world.wait_mirror()
        self._wait_whole(self._here)
        self._wait_whole(self._there)
        traffic.end_reading("finish")
        if operation.choice is not FailbackChoice.KEEP:
            topics = [topic for topic in world.topics if topic not in self._compacted]
            other = unlike(self._logs(self._here), self._logs(self._there), topics)
            self._failures += [f"{where}: made anew, and not equal to its copy" for where in other]

    def _copy_again(self) -> None:
        world, traffic = self._world, self._traffic
        self._fail_over()
        refused = self._steering.command("dr", "failback", world.flow, "--dry-run", "--fenced-by-hand")
        names = {one["name"] for one in answer_of(refused).get("refused", ())}
        if refused.code != _REFUSED or _NAMES_DIFFER not in names:
            self._failures.append(f"a failback under the default policy is not refused: {refused.told} {names}")
        self._write_new()
        began = time.monotonic()
        world.start_mirror("--forget-failover", world.flow)
        if told := world.wait_answer():
            raise BenchError("raymirror", f"run --forget-failover has ended: {told}")
        if self._kill is not None:
            time.sleep(self._kill.moment.after_s + self._kill.delay_s)
            self._steering.killed = hit(self._kill.victim, world, seed=self._seed, restart_mirror=True)
        world.wait_mirror()
        traffic.stop_writing()
        self._wait_whole(self._here)
        self._wait_whole(self._there)
        self._operation_s = time.monotonic() - began
        traffic.start_reading(self._there, "v")
        traffic.end_reading("finish")

    # --- their parts -------------------------------------------------------------------------------------------------

    def _timed(self, work: Callable[[], Any]) -> Any:
        began = time.monotonic()
        try:
            return work()
        finally:
            self._operation_s = time.monotonic() - began

    def _write_a_while(
        self, alias: str, letter: str, *, gated: bool = False, keys: bool = True, load: str = ""
    ) -> None:
        self._traffic.write(alias, letter, gated=gated, keys=keys, load=load)
        self._traffic.await_written()
        time.sleep(BEFORE_S)

    def _open(self, *, gated: bool) -> None:
        """Write and read on the serving cluster; readers end in the middle, writers go on if the load is busy."""
        traffic = self._traffic
        traffic.start_reading(self._here, "x")
        self._write_a_while(self._here, "w", gated=gated)
        traffic.await_read()
        traffic.end_reading("stop")
        if self._load == "idle":
            time.sleep(_POLL_S)
            traffic.stop_writing()

    def _separate(self) -> None:
        """Write and read on the serving cluster, and cut it off; what is written after that only it has."""
        world, traffic = self._world, self._traffic
        traffic.start_reading(self._here, "x")
        self._write_a_while(self._here, "w", load="idle")
        traffic.stop_writing()
        self._wait_whole(self._there)
        self._write_a_while(self._here, "u", keys=False)
        traffic.await_read()
        traffic.end_reading("stop")
        world.cluster(self._here).fronts.cut()
        if self._load == "idle":
            traffic.stop_writing()
            traffic.write(self._here, "d", keys=False)
            traffic.await_written()
        time.sleep(_POLL_S)
        traffic.stop_writing()

    def _fail_over(self) -> Diverged:
        """Lose the serving cluster, fail over without a kill, and let it return; what it has alone is returned."""
        world, traffic = self._world, self._traffic
        self._separate()
        try:
            outcome = self._steering.give(failover_words(world))
        finally:
            world.cluster(self._here).fronts.mend()
        if outcome.code not in (0, 4):
            raise BenchError("dr", f"the failover before it: {outcome.told}")
        self._see_unequal(unequal_in_failover(answer_of(outcome), traffic.groups.values()))
        world.end_mirror()
        return self._see_diverged()

    def _write_new(self) -> None:
        """Write and read on the cluster that serves after a failover; writers go on if the load is busy."""
        traffic = self._traffic
        traffic.start_reading(self._there, "y")
        self._write_a_while(self._there, "n", load="idle")
        traffic.await_read()
        traffic.end_reading("stop")
        traffic.stop_writing()
        if self._load == "busy":
            traffic.write(self._there, "m")
            traffic.await_written()

    def _go_on(self, alias: str) -> None:
        """Write and read on the cluster that serves now, until everything is read."""
        traffic = self._traffic
        traffic.start_reading(alias, "y")
        self._write_a_while(alias, "n")
        traffic.stop_writing()
        traffic.end_reading("finish")

    def _turn(self) -> None:
        """Let the other cluster serve: copies that keep their names need a mirror with the directions turned."""
        world = self._world
        if not world.renames or world.mirror is None:
            world.end_mirror()
            world.turn()
            world.start_mirror()
        else:
            world.turn()
            world.write_config()

    @property
    def _is_mirror_dead(self) -> bool:
        """Whether the machine of the mirror died, so that it comes back when the old source does."""
        is_killed = self._kill is not None and self._kill.victim is Victim.RUN and not self._steering.killed
        return self._operation.alone or is_killed

    def _return_mirror(self) -> None:
        """Start the mirror as a machine does that comes back: it must not copy in the old direction."""
        world = self._world
        world.start_mirror()
        if world.renames:
            world.wait_answer()  # it copies the other direction
        elif not world.has_ended():
            self._failures.append("the mirror of a flow that was failed over was started again, and runs")

    # --- what the commands say ---------------------------------------------------------------------------------------

    def _see_unequal(self, unequal: Iterable[str]) -> None:
        """Note which groups are not called equal: they may read records again."""
        named = frozenset(unequal)
        for kind, group in self._traffic.groups.items():
            self._may_repeat[kind] |= group in named

    def _see_diverged(self) -> Diverged:
        """Return what only the old source has: it must be the end of each log."""
        found = diverged(self._logs(self._here), self._logs(self._there), compacted=self._compacted)
        self._failures += [f"{where}: the copy has holes behind what it lacks" for where in found.holes]
        return found

    def _see_preview(self, lost: Diverged) -> None:
        outcome = self._steering.command("dr", "preview", self._world.flow)
        try:
            said = sum(one["records"] for one in answer_of(outcome)["losses"])
        except (KeyError, json.JSONDecodeError) as error:
            raise BenchError("dr", f"the preview: {outcome.told}") from error
        is_killed = self._operation.alone or (self._kill is not None and self._kill.victim in OF_MIRROR)
        notes, faults = judge_preview(said, len(lost.records), stopped_in_order=not is_killed)
        self._notes += notes
        self._failures += faults

    def _see_exported(self, lost: Diverged) -> None:
        """What only the old source had must be in the files, whatever becomes of it."""
        files = sorted(self._world.export.rglob("*.jsonl"))
        found = frozenset(exported((file.read_text() for file in files), self._world.names_on(self._here)))
        if missing := [one for one in lost.records if one not in found]:
            self._failures.append(f"{len(missing)} records are not in the export, as {missing[0]}")

    # --- the judging -------------------------------------------------------------------------------------------------

    def _logs(self, alias: str) -> Logs:
        world = self._world
        first = {} if self._operation.once else self._first[alias]
        return sides.read(world.servers(alias), world.names_on(alias), first)

    @property
    def _remaining(self) -> Sent:
        """What must be somewhere: a failback with discard has thrown away what it has reported."""
        is_gone = self._operation.choice is FailbackChoice.DISCARD
        return self._traffic.sent.without(self._excused) if is_gone else self._traffic.sent

    def _judge(self, logs: Logs) -> SideFault:
        return judge_side(self._remaining, logs, excused=self._excused, compacted=self._compacted)

    def _judged(self) -> tuple[SideFault, SideFault, dict[str, GroupFault]]:
        """Read both sides once more, and judge them and what the groups have read."""
        here, there = self._logs(self._here), self._logs(self._there)
        is_cut_off = self._operation.play is Play.FAILOVER  # the old source gets nothing from the new one
        sides_read = (there,) if is_cut_off else (here, there)
        groups: dict[str, GroupFault] = {}
        for kind in KINDS:
            read = self._traffic.read[kind]
            wanted = wanted_of(read, sides_read, self._traffic.sent, excused=self._excused, compacted=self._compacted)
            groups[kind] = judge_group(wanted, read, compacted=self._compacted)
        return SideFault() if is_cut_off else self._judge(here), self._judge(there), groups

    def _wait_whole(self, alias: str) -> None:
        """Wait until a side has everything, or gets nothing any more; what it lacks then is a fault."""
        least, give_up_at = -1, 0.0
        while lost := self._judge(self._logs(alias)).lost:
            now = time.monotonic()
            if least < 0 or lost < least:
                least, give_up_at = lost, now + WHOLE_S
            if now > give_up_at:
                return
            time.sleep(_POLL_S)
