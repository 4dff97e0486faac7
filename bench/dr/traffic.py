"""The writers and readers of one round, and what they have noted."""

from collections.abc import Mapping
from pathlib import Path

from bench.dr import sides
from bench.dr.clients import JAVA, LIBRDKAFKA, ClientProcess, read_noted, read_sent
from bench.dr.judge import Log, Sent
from bench.dr.records import RecordId
from bench.dr.world import World
from bench.errors import BenchError

KINDS = (LIBRDKAFKA, JAVA)
PER_S = {"busy": {"plain": 2000, "tx": 700, "keys": 300}, "idle": {"plain": 60, "tx": 60, "keys": 30}}
"""Records per second of one writer; each kind of client writes `plain`, so busy are 5,000."""
LEAST = {"plain": 40, "tx": 140, "keys": 40}
"""Records of one writer before anything is done to it: a transaction that is rolled back, and keys that come twice."""


class Traffic:
    """Everything that clients do in one round. `sent`: of the writers that have ended."""

    def __init__(self, world: World, clients: Mapping[str, ClientProcess], seed: int, load: str) -> None:
        self._world, self._clients, self._seed, self._load = world, clients, seed, load
        self._round = world.next_round()
        self._folder = world.folder / f"round-{self._round}"
        self._folder.mkdir()
        self._writing: list[tuple[str, str, int]] = []
        self._reading: list[tuple[str, str, str]] = []
        self.groups = {kind: f"{world.tag}-{kind}-{self._round}" for kind in KINDS}
        self.read: dict[str, dict[Log, list[RecordId]]] = {kind: {} for kind in KINDS}
        self.sent = Sent()
        self.faults: list[str] = []

    def write(self, alias: str, letter: str, *, gated: bool = False, keys: bool = True, load: str = "") -> None:
        """Start the writers of one stint on a cluster: both kinds of client, transactions, and a compacted topic."""
        per_s = PER_S[load or self._load]
        turned = KINDS if self._seed % 2 else KINDS[::-1]
        wanted = [("plain", kind) for kind in KINDS] + [("tx", turned[0])] + ([("keys", turned[1])] if keys else [])
        for what, kind in wanted:
            topic = f"{self._world.tag}-{what}"
            name = f"{self._world.tag}.{self._round}{letter}.{what}.{kind[0]}"
            gate = str(self._world.gate(alias)) if gated else "-"
            tx = f"{self._world.tag}-{what}-{letter}" if what == "tx" else "-"
            place = f"{topic}={self._world.topics[topic]}"
            self._clients[kind].say(
                *("write", name, self._world.servers(alias), per_s[what], gate, tx, self._file(name), place)
            )
            self._writing.append((kind, name, LEAST[what]))

    def await_written(self) -> None:
        """Wait until each writer has written something. Raises BenchError."""
        for kind, name, least in self._writing:
            answer = self._clients[kind].ask("await", name, least)
            if answer.count < least:
                raise BenchError("dr", f"writer {name} has written {answer.count} records: {answer.why or 'too slow'}")

    def await_read(self) -> None:
        """Wait until each member has read something. Raises BenchError."""
        for kind, name, _ in self._reading:
            answer = self._clients[kind].ask("await", name, 1)
            if not answer.count:
                raise BenchError("dr", f"reader {name} has read nothing: {answer.why or 'too slow'}")

    def stop_writing(self) -> Sent:
        """End the writers, and return what they have sent. Raises BenchError."""
        sent = Sent()
        for kind, name, _ in self._writing:
            answer = self._clients[kind].ask("stop", name)
            if answer.why:
                self.faults.append(f"writer {name}: {answer.why}")
            if not self._file(name).exists():
                raise BenchError("dr", f"writer {name} has noted nothing: {answer.why}")
            sent |= read_sent(self._file(name), name)
        self._writing.clear()
        self.sent |= sent
        return sent

    def begin_groups(self, ends: Mapping[Log, int]) -> None:
        """Let the groups of the round begin where the logs of the serving cluster end; those of earlier rounds go.

        A failback has let one of them read on where nothing is produced, and it keeps a switchover from calling groups
        equal.
        """
        earlier = [f"{self._world.tag}-{kind}-{number}" for kind in KINDS for number in range(1, self._round)]
        for alias in (self._world.here, self._world.there):
            sides.delete_groups(self._world.servers(alias), earlier)
        for group in self.groups.values():
            sides.commit(self._world.servers(self._world.here), group, ends)

    def start_reading(self, alias: str, letter: str, kinds: tuple[str, ...] = KINDS) -> None:
        """Start a member of each group on a cluster."""
        topics = ",".join(topic for topic in self._world.names_on(alias))
        for kind in kinds:
            name = f"{self._world.tag}.{self._round}{letter}.read.{kind[0]}"
            self._clients[kind].say(
                "read", name, self._world.servers(alias), self.groups[kind], self._file(name), topics
            )
            self._reading.append((kind, name, alias))

    def end_reading(self, word: str) -> None:
        """End the members: `stop` now, `finish` when they have read all. Raises BenchError."""
        for kind, name, alias in self._reading:
            answer = self._clients[kind].ask(word, name)
            if answer.why:
                self.faults.append(f"reader {name}: {answer.why}")
            noted = read_noted(self._file(name), self._world.names_on(alias))
            for (topic, number), records in noted.items():
                log = self._world.names_on(alias)[topic], number
                self.read[kind].setdefault(log, []).extend(records)
        self._reading.clear()

    def _file(self, name: str) -> Path:
        return self._folder / name
