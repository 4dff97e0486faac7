"""The two client processes of a run, one of librdkafka and one of Java, which hold all writers and readers.

Words, one line each. `await`, `stop` and `finish` are answered by a JSON line, the last two when the work has ended:

write NAME SERVERS RECORDS_PER_S GATE TRANSACTIONAL_ID FILE TOPIC=PARTITIONS,...   (`-`: no gate, no transactions)
read NAME SERVERS GROUP FILE TOPIC,...
await NAME N   answered when it has written or read so many records, or has ended
stop NAME      end now: a writer waits for its answers, a reader commits
finish NAME    a reader ends when it has read all
"""

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from bench.dr.judge import Log, Sent
from bench.dr.records import RecordId
from bench.errors import BenchError
from deploy.local.tools import QUICK_FLAGS, java_command

LIBRDKAFKA, JAVA = "librdkafka", "java"
_ANSWER_S = 600.0
_ROOT = Path(__file__).parents[2]


class Answer(msgspec.Struct, frozen=True):
    """What a writer or reader says: how many records it has written or read; `why`: its error."""

    id: str
    count: int
    why: str


class ClientProcess:
    """One of the two; it ends when its input closes."""

    def __init__(self, kind: str, command: list[str], folder: Path) -> None:
        self.kind, self._log_file = kind, folder / f"{kind}.log"
        with self._log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
                env={**os.environ, "PYTHONPATH": str(_ROOT)},
            )
        self._hear()

    def say(self, *words: object) -> None:
        """Give it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()

    def ask(self, *words: object) -> Answer:
        """Give it a line and wait for the answer. Raises BenchError."""
        self.say(*words)
        return msgspec.convert(self._hear(), Answer)

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        give_up_at = time.monotonic() + _ANSWER_S
        while time.monotonic() < give_up_at:
            if select.select([self._process.stdout], [], [], 0.5)[0]:
                if line := self._process.stdout.readline():
                    return json.loads(line)
                break
        told = self._log_file.read_text(errors="replace")[-1500:].strip() or "(nothing)"
        raise BenchError(self.kind, f"no answer within {_ANSWER_S:.0f} s; its errors end: {told}")

    def close(self) -> None:
        """End it by pid."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


@contextlib.contextmanager
def client_processes(folder: Path) -> Iterator[Mapping[str, ClientProcess]]:
    """Start both, and end both. Raises BenchError, ClusterError."""
    flags = (*QUICK_FLAGS, "--add-modules", "jdk.compiler")
    java = java_command(str(Path(__file__).with_name("Client.java")), heap_mib=512, flags=flags)
    with contextlib.ExitStack() as stack:
        found: dict[str, ClientProcess] = {}
        for kind, command in ((JAVA, java), (LIBRDKAFKA, [sys.executable, "-m", "bench.dr.librdkafka"])):
            found[kind] = ClientProcess(kind, command, folder)
            stack.callback(found[kind].close)
        yield found


def read_sent(file: Path, stint: str) -> Sent:
    """Read what a writer has noted; what was rolled back is in neither part, so it is foreign if it is seen."""
    parts: dict[str, set[RecordId]] = {"+": set(), "?": set(), "-": set()}
    for line in file.read_text().splitlines():
        fate, topic, partition, number = line.split()
        parts[fate].add(RecordId(stint, topic, int(partition), int(number)))
    return Sent(frozenset(parts["+"]), frozenset(parts["?"]))


def read_noted(file: Path, names: Mapping[str, str]) -> dict[Log, list[RecordId]]:
    """Read what a reader has noted, by the writers' topics; `names`: theirs for each topic of the side."""
    found: dict[Log, list[RecordId]] = {}
    for line in file.read_text().splitlines():
        topic, partition, _, text = line.split()
        stint, of, number = text.split(":")
        found.setdefault((topic, int(partition)), []).append(RecordId(stint, names[topic], int(of), int(number)))
    return found
