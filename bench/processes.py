"""CPU and memory of a tree of processes, read from /proc, ended children included.

A process is identified by (pid, start time), so a reused pid is another process. The tree is discovered from its root
now and then, and read cheaply in between. A discovered process stays in the tree when its parent dies (Ray's workers
may).

The CPU time of a short-lived child is in its parent's `cutime`/`cstime` (proc(5)), which holds every child that the
parent waited for. A discovered child already counts by itself, so only the rest is added to its parent.
"""

import os
from pathlib import Path

import msgspec

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")

ProcessKey = tuple[int, int]
"""(pid, start time in clock ticks since boot)."""


class Stat(msgspec.Struct, frozen=True):
    """The fields of one line of /proc/PID/stat that a bench needs."""

    key: ProcessKey
    parent_pid: int
    own_s: float
    reaped_s: float


def decode_stat(line: str) -> Stat:
    """Read /proc/PID/stat; the command in it is in parentheses and may hold spaces and parentheses itself."""
    pid = int(line[: line.index("(")])
    fields = line[line.rindex(")") + 2 :].split()
    own, reaped = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    return Stat((pid, int(fields[19])), int(fields[1]), own * _TICK_S, reaped * _TICK_S)


class TreeSample(msgspec.Struct, frozen=True, kw_only=True):
    """CPU seconds used so far by every process ever seen in the tree, ended ones with their last value."""

    cpu_s: dict[ProcessKey, float]

    def since(self, earlier: "TreeSample", keys: frozenset[ProcessKey] | None = None) -> float:
        """CPU seconds used between two samples, by all processes or by the given ones."""
        return sum(
            used_s - earlier.cpu_s.get(key, 0.0) for key, used_s in self.cpu_s.items() if keys is None or key in keys
        )


class ProcessTree:
    """Every process that descends from `root_pid`, from the first `discover` on."""

    def __init__(self, root_pid: int) -> None:
        self._root_pid = root_pid
        self._seen: dict[ProcessKey, Stat] = {}
        self._ended: set[ProcessKey] = set()
        self._peak_rss_bytes: dict[ProcessKey, int] = {}
        self._commands: dict[ProcessKey, str] = {}

    def discover(self) -> None:
        """Search all processes for new members, and store memory peaks and commands of the living ones."""
        stats = [stat for entry in _PROC.iterdir() if entry.name.isdigit() and (stat := _read_stat(int(entry.name)))]
        members = {key[0] for key in self._seen if key not in self._ended} | {self._root_pid}
        grown = True
        while grown:
            new = {stat.key[0] for stat in stats if stat.parent_pid in members} - members
            members |= new
            grown = bool(new)
        for stat in stats:
            if stat.key[0] in members:
                self._seen[stat.key] = stat
                self._note_memory(stat.key)

    def sample(self) -> TreeSample:
        """Read the CPU time of the known members."""
        for key in self._seen.keys() - self._ended:
            stat = _read_stat(key[0])
            if stat is None or stat.key != key:
                self._ended.add(key)
            else:
                self._seen[key] = stat
        counted_s: dict[int, float] = {}
        for key in self._ended:
            ended = self._seen[key]
            counted_s[ended.parent_pid] = counted_s.get(ended.parent_pid, 0.0) + ended.own_s + ended.reaped_s
        return TreeSample(
            cpu_s={
                key: stat.own_s + max(0.0, stat.reaped_s - counted_s.get(key[0], 0.0))
                for key, stat in self._seen.items()
            }
        )

    def living(self) -> frozenset[ProcessKey]:
        """Members that were alive at the last sample."""
        return frozenset(self._seen.keys() - self._ended)

    def members(self, command_part: str) -> frozenset[ProcessKey]:
        """Members, ended ones too, whose command line holds this text."""
        return frozenset(key for key, command in self._commands.items() if command_part in command)

    def peak_rss_bytes(self, keys: frozenset[ProcessKey] | None = None) -> int:
        """Sum of each process's own peak of resident memory (VmHWM): an upper bound of the peak of the sum."""
        return sum(peak for key, peak in self._peak_rss_bytes.items() if keys is None or key in keys)

    def rss_bytes(self, keys: frozenset[ProcessKey]) -> int:
        """Resident memory of these processes now; ended ones have none."""
        return sum(_resident_pages(pid) for pid, _ in keys) * os.sysconf("SC_PAGE_SIZE")

    def pss_bytes(self, keys: frozenset[ProcessKey]) -> int:
        """Proportional memory of these processes now: a page that n processes share counts 1/n for each."""
        return sum(_proportional_bytes(pid) for pid, _ in keys)

    def wakes(self, keys: frozenset[ProcessKey]) -> int:
        """Times that the living threads of these processes went to sleep so far: each is followed by a wake.

        Unlike CPU time, this number does not depend on the other load of the machine.
        """
        return sum(_voluntary_switches(pid) for pid, _ in keys)

    def command(self, key: ProcessKey) -> str:
        """Give the command line of a member as it was read last; empty if it never had one."""
        return self._commands.get(key, "")

    def _note_memory(self, key: ProcessKey) -> None:
        try:
            status = (_PROC / str(key[0]) / "status").read_text()
            command = (_PROC / str(key[0]) / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return  # it ended after it was listed; its last values stay
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                self._peak_rss_bytes[key] = int(line.split()[1]) * 1024
        if command:
            self._commands[key] = command.replace(b"\0", b" ").decode(errors="replace")


def _resident_pages(pid: int) -> int:
    try:
        return int((_PROC / str(pid) / "statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _proportional_bytes(pid: int) -> int:
    try:
        rollup = (_PROC / str(pid) / "smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))


def _voluntary_switches(pid: int) -> int:
    count = 0
    try:
        for thread in (_PROC / str(pid) / "task").iterdir():
            status = (thread / "status").read_text()
            count += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("voluntary_ctxt"))
    except (FileNotFoundError, ProcessLookupError):
        return count  # a thread or the process has ended meanwhile
    return count


def is_alive(key: ProcessKey) -> bool:
    """True while this very process runs (a zombie does not)."""
    try:
        line = (_PROC / str(key[0]) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return decode_stat(line).key == key and line[line.rindex(")") + 2] not in "ZX"


def _read_stat(pid: int) -> Stat | None:
    try:
        return decode_stat((_PROC / str(pid) / "stat").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return None
