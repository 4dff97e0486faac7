"""The row of every command of the command line: its routes, and what of it has no route, with the reason.

A command without a row fails a test, so whoever adds one decides. docs/api.md has this table.
"""

from typing import Final

import msgspec

_API: Final = "/api/v1"
_FLOW: Final = f"{_API}/flows/{{flow}}"
_MACHINE: Final = "it is about the machine on which it is typed"


class CommandRow(msgspec.Struct, frozen=True, kw_only=True):
    """A command with its sub-command. `routes`: method and path. `without`: what has no route, and why."""

    command: str
    routes: tuple[str, ...] = ()
    without: str = ""


def _row(command: str, *routes: str, without: str = "") -> CommandRow:
    return CommandRow(command=command, routes=routes, without=without)


COVERAGE: Final[tuple[CommandRow, ...]] = (
    # the mirror, and what it does
    _row("status", f"GET {_API}/mirror", f"GET {_API}/status", f"GET {_FLOW}"),
    _row("lag", f"GET {_FLOW}/topics", f"GET {_FLOW}/partitions", f"GET {_FLOW}/series", f"GET {_FLOW}/history"),
    _row("events", f"GET {_API}/events", f"GET {_API}/stream"),
    _row("pause", f"POST {_API}/mirror/pause", f"POST {_FLOW}/pause"),
    _row("resume", f"POST {_API}/mirror/resume", f"POST {_FLOW}/resume"),
    _row("restart", f"POST {_FLOW}/restart"),
    _row("stop", f"POST {_API}/mirror/stop", f"POST {_FLOW}/stop"),
    _row("reload", f"GET {_API}/plan", f"POST {_API}/reload", without="another file than the mirror's own"),
    # copies
    _row("plan", f"GET {_FLOW}/plan"),
    _row("apply", f"POST {_FLOW}/apply"),
    _row("audit", f"GET {_API}/audit"),
    _row("drift", f"GET {_API}/drift"),
    _row("verify", f"POST {_FLOW}/verify", f"GET {_FLOW}/proofs", without="`--storage`, `--cores`: as the file says"),
    _row("compare-ends", f"GET {_FLOW}/ends"),
    _row("quarantine list", f"GET {_FLOW}/quarantine"),
    _row("quarantine show", f"GET {_FLOW}/quarantine/contents"),
    _row("quarantine replay", f"POST {_FLOW}/quarantine/replay"),
    _row("quarantine drop", f"POST {_FLOW}/quarantine/drop"),
    # tables
    _row("tables", f"GET {_API}/tables", without="`convert`: it is done once, after an update, and may take hours"),
    _row("sql", f"GET {_API}/sql"),
    _row("report", f"GET {_API}/report"),
    # groups, and the way to the target
    _row(
        "translate",
        f"GET {_FLOW}/translation",
        f"POST {_FLOW}/translation",
        without="`--hold-until-equal`: ask again until `equal` is true",
    ),
    _row(
        "move",
        f"GET {_FLOW}/moves",
        *(f"POST {_FLOW}/moves/{what}" for what in ("group", "undo", "topics")),
        without="`--undo` with `--topics`: it needs somebody who has stopped the producers on the target",
    ),
    _row(
        "failover", f"POST {_FLOW}/failover", without="`--back`: for somebody who moves groups back without a failback"
    ),
    _row("dr preview", f"GET {_FLOW}/failover-preview"),
    _row("dr switchover", f"POST {_FLOW}/switchover", without="`--reverse-config`: it writes a file"),
    _row(
        "dr failback",
        f"POST {_FLOW}/failback",
        without="`--export`: it writes files; `--fenced-by-hand`, `--make-anew`, `--release-source`: they need somebody"
        " who looks at both clusters",
    ),
    _row("dr status", f"GET {_FLOW}/operations"),
    _row("dr history", f"GET {_FLOW}/operations"),
    _row("dr resume", f"POST {_FLOW}/operation/resume"),
    _row("dr abort", f"POST {_FLOW}/operation/abort"),
    _row("dr drill", f"POST {_FLOW}/drill", without="`--clean`: each drill begins with it"),
    _row("dr export", without="it writes records to files of the machine on which it is typed"),
    # before there is a mirror, and outside of it
    _row("check", without="it looks at a file before a mirror runs with it; a reload checks it again"),
    _row("takeover", without="it looks at MM2's flows before a mirror runs"),
    _row("convert", without="it reads and writes files of the machine on which it is typed"),
    _row("run", without="it starts the mirror, and with it this server"),
    _row("drain", without="the node's own preStop hook calls it, and the supervisor may be on that node"),
    _row("logs", without=f"{_MACHINE}: each machine has logs of its own"),
    _row("demo", without="it starts clusters and a mirror of its own"),
    _row("cluster up", without=_MACHINE),
    _row("cluster down", without=_MACHINE),
    _row("cluster status", without=_MACHINE),
    _row("setup", without="it installs files on the machine on which it is typed"),
    _row("console", without="it opens a page of this server"),
    _row("completion", without=_MACHINE),
    _row("help", without=_MACHINE),
)


def coverage_table() -> str:
    """Return the table as docs/api.md shows it."""
    lines = ["| Command | Route | Without a route |", "| --- | --- | --- |"]
    for row in COVERAGE:
        routes = ", ".join(f"`{route.replace('{flow}', 'F')}`" for route in row.routes)
        lines.append(f"| `{row.command}` | {routes} | {row.without} |")
    return "\n".join(lines)
