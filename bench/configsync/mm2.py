"""MM2's own config sync: its log gives the start of a round, the target's configs give the end."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from bench.systems.launch import Job, Launch, write_properties
from deploy.local.settings import encode_logging
from deploy.local.tools import SERVER_FLAGS, java_command

_HEAP_MIB = 2048
_LEVELS = {"org.apache.kafka.connect.mirror": "INFO"}
_ROUND = re.compile(r"\[(?P<at>[0-9T:,.\-]+)\] INFO syncing topic configs took (?P<ms>[0-9]+) ms")


class Round(NamedTuple):
    """A round of MM2: its start and end by the scheduler (Unix time, seconds); requests may still be in flight."""

    began_s: float
    ended_s: float


def launch(job: Job, every_s: int) -> Launch:
    """Return MM2 with a log of its rounds; all its other loops are switched off."""
    flow = f"{job.alias}->target"
    file = write_properties(
        job,
        {
            "tasks.max": "1",
            f"{flow}.sync.topic.configs.interval.seconds": str(every_s),
            f"{flow}.sync.topic.acls.enabled": "false",
            f"{flow}.emit.heartbeats.enabled": "false",
            f"{flow}.emit.checkpoints.enabled": "false",
            f"{flow}.refresh.topics.enabled": "false",
            f"{flow}.refresh.groups.enabled": "false",
        },
    )
    logging = job.folder / "log4j2.properties"
    logging.write_text(encode_logging(_LEVELS, root="WARN"))
    command = java_command(
        "org.apache.kafka.connect.mirror.MirrorMaker",
        str(file),
        heap_mib=_HEAP_MIB,
        flags=SERVER_FLAGS,
        log_configuration=logging,
    )
    return Launch(command=tuple(command))


def rounds(lines: Iterable[str]) -> Iterator[Round]:
    """Read the rounds of a log, oldest first."""
    for line in lines:
        one = _ROUND.match(line)
        if one is not None:
            ended_s = datetime.fromisoformat(one["at"].replace(",", ".")).timestamp()
            yield Round(ended_s - int(one["ms"]) / 1000, ended_s)
