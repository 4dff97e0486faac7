"""Names what an operator would give to have it otherwise: an option of a command, or a field of a request over HTTP.

A reason is found far from who asked, and its advice goes through errors, reports and stored operations. So no advice
spells an option: it has an `AdvisedOption` or an `AdvisedCommand`, which names itself as whoever asked would send it.
What asks says once where it is (`asked_from`), for all that is done in its context, and which file it was given
(`given_config`).
"""

import enum
import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple
from urllib.parse import quote

_ONLY_THERE: Final = "(only on the command line)"


class AskedFrom(enum.StrEnum):
    """Where somebody has asked: their words are options, or fields."""

    COMMAND_LINE = "command-line"
    HTTP = "http"


_ASKED_FROM: Final[ContextVar[AskedFrom]] = ContextVar("asked_from", default=AskedFrom.COMMAND_LINE)


def asked_from(place: AskedFrom) -> None:
    """Let all advice of this context name what somebody there would send."""
    _ASKED_FROM.set(place)


_CONFIG: Final[ContextVar[str]] = ContextVar("given_config", default="")


@contextmanager
def given_config(path: str) -> Iterator[None]:
    """Let advised commands repeat the configuration that a command was given, while the block runs; empty: none was."""
    before = _CONFIG.set(path)
    try:
        yield
    finally:
        _CONFIG.reset(before)


class AdvisedOption(NamedTuple):
    """An option of a command, and its field in a request. `option`: empty for a positional argument.

    `field`: empty if no request has one. `is_list`: its value is a list; `in_query`: it is in the query, not the body.
    """

    option: str
    field: str = ""
    is_list: bool = False
    in_query: bool = False

    def __str__(self) -> str:
        """Name it without a value."""
        if _ASKED_FROM.get() is AskedFrom.COMMAND_LINE:
            return self.option
        return f'"{self.field}"' if self.field else f"{self.option} {_ONLY_THERE}"

    def given(self, value: str = "") -> str:
        """Show how it is given; without a value it is a flag."""
        typed = " ".join(filter(None, (self.option, value)))
        if _ASKED_FROM.get() is AskedFrom.COMMAND_LINE:
            return typed
        if not self.field:
            return f"{typed} {_ONLY_THERE}"
        if self.in_query:
            return f"?{self.field}={value or 'true'}"
        shown = json.dumps(value) if value else "true"
        return f'"{self.field}": {f"[{shown}]" if self.is_list else shown}'


class AdvisedCommand(NamedTuple):
    """A command, and the route that does the same for a flow. `route`: empty if none does.

    `takes_config`: it has `--config FILE`.
    """

    words: str
    route: str = ""
    method: str = "POST"
    takes_config: bool = False

    def given(self, flow: str = "", *options: str) -> str:
        """Show how it is given; `options`: what `AdvisedOption.given` has returned."""
        config = f"--config {shlex.quote(_CONFIG.get())}" if self.takes_config and _CONFIG.get() else ""
        typed = " ".join(filter(None, (f"raymirror {self.words}", f"'{flow}'" if flow else "", *options, config)))
        if _ASKED_FROM.get() is AskedFrom.COMMAND_LINE:
            return typed
        if not self.route:
            return f"{typed} {_ONLY_THERE}"
        place = f"/api/v1/flows/{quote(flow, safe='')}" if flow else "..."
        query = "".join(one for one in options if one.startswith("?"))
        fields = ", ".join(one for one in options if not one.startswith("?"))
        return f"{self.method} {place}/{self.route}{query}{f' with {fields}' if fields else ''}"


# --- options ----------------------------------------------------------------------------------------------------------

ABORT: Final = AdvisedOption("--abort", "abort")
ACCEPT_REPEATS: Final = AdvisedOption("--accept-repeats", "accept_repeats")
BACKWARDS: Final = AdvisedOption("--backwards", "backwards")
CHOICE: Final = AdvisedOption("--choice", "choice")
DESPITE_OPERATION: Final = AdvisedOption("--despite-operation", "despite_operation")
EVERYONE_ALLOWED: Final = AdvisedOption("--everyone-allowed", "everyone_allowed")
FENCE: Final = AdvisedOption("--fence", "fence")
FORGET_FAILOVER: Final = AdvisedOption("--forget-failover", "failed_over", in_query=True)
GROUP: Final = AdvisedOption("", "group")
GROUPS: Final = AdvisedOption("--groups", "groups", is_list=True)
IGNORE: Final = AdvisedOption("--ignore", "ignore", is_list=True)
KEEP_TOMBSTONES: Final = AdvisedOption("--keep-tombstones", "keep_tombstones_days")
LEAVE_GROUP: Final = AdvisedOption("--leave-group", "leave_groups", is_list=True)
LEAVE_UNCOPIED: Final = AdvisedOption("--leave-uncopied", "leave_uncopied")
OWN_PRINCIPAL: Final = AdvisedOption("--own-principal", "own_principal")
PRINCIPAL: Final = AdvisedOption("--principal", "principals", is_list=True)
RECORD: Final = AdvisedOption("--record", "records", is_list=True)
RECORDS_OF_TOPIC: Final = AdvisedOption("--topic", "topics", is_list=True)
ALL_RECORDS: Final = AdvisedOption("--all", "all")
SAMPLE: Final = AdvisedOption("--sample", "sample")
SPARK: Final = AdvisedOption("--spark", "spark")
TOPICS: Final = AdvisedOption("--topics", "topics")
EXPORT: Final = AdvisedOption("--export")
MAKE_ANEW: Final = AdvisedOption("--make-anew")

# --- commands ---------------------------------------------------------------------------------------------------------

DR_ABORT: Final = AdvisedCommand("dr abort", "operation/abort", takes_config=True)
DR_FAILBACK: Final = AdvisedCommand("dr failback", "failback", takes_config=True)
DR_RELEASE: Final = AdvisedCommand("dr failback --release-source", takes_config=True)
DR_RESUME: Final = AdvisedCommand("dr resume", "operation/resume", takes_config=True)
DR_HISTORY: Final = AdvisedCommand("dr history", "operations", "GET", takes_config=True)
DR_STATUS: Final = AdvisedCommand("dr status", "operations", "GET", takes_config=True)
DR_SWITCHOVER: Final = AdvisedCommand("dr switchover", "switchover", takes_config=True)
FAILOVER_BACK: Final = AdvisedCommand("failover --back --apply")
MOVE_GROUP: Final = AdvisedCommand("move", "moves/group", takes_config=True)
MOVE_LIST: Final = AdvisedCommand("move --list", "moves", "GET", takes_config=True)
QUARANTINE_DROP: Final = AdvisedCommand("quarantine drop", "quarantine/drop")
QUARANTINE_REPLAY: Final = AdvisedCommand("quarantine replay", "quarantine/replay")
QUARANTINE_LIST: Final = AdvisedCommand("quarantine list --all", "quarantine?all=true", "GET")
RESUME: Final = AdvisedCommand("resume", "resume")
