"""Entry point of the `raymirror` command: lists the sub-commands, runs one, and maps errors to exit codes.

Each sub-command is a module with `add_arguments(parser)` and `run(args) -> int`. Only the module of the given command
is imported, so `raymirror cluster` starts fast and never imports Ray or Spark.
"""

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from actors.cli.common import exits
from actors.cli.common.flags import fill_places, refuse_no_flow, settle_config
from actors.local.ending import EndSignalled, ended_by_signals
from actors.local.session import NoMirror
from actors.model.requests import ASKED_WRONGLY, OVER_HTTP
from deploy.local.errors import ClusterError
from engine.base.errors import MirrorError, WrongQuestion
from engine.base.redaction import hide_in_tracebacks, own_redacted, remember_environment
from engine.config.file.file_kind import worded
from policies.dr.advice import AskedFrom, asked_from, given_config
from policies.own.own_policy import OwnPolicyError

# As a shell reports a program ended by SIGINT.
INTERRUPTED: Final = 130
# As a shell reports a program ended by SIGPIPE.
UNREAD: Final = 141
REPEATS_CONFIG: Final = ("dr", "move", "run")
"""Commands whose advice names the configuration again, because it works without a mirror on this machine."""

# name: (module, help). The help is here and not in the module, because the import of a module may take long.
COMMANDS: Final = {
    "demo": ("actors.cli.clusters.demo", "start two real clusters, a live mirror and Spark, and prove the copy"),
    "cluster": (
        "actors.cli.clusters.cluster",
        "start, stop and show two Kafka clusters on this machine, to try raymirror out",
    ),
    "check": ("actors.cli.clusters.check", "report what is wrong or missing in a configuration; changes nothing"),
    "convert": (
        "actors.cli.clusters.convert",
        "write a mirror.yaml from the files of MirrorMaker 1, Kafka Connect, Strimzi, Replicator or uReplicator",
    ),
    "takeover": (
        "actors.cli.clusters.takeover",
        "show what would happen if raymirror took over MM2's flows now; changes nothing",
    ),
    "run": ("actors.cli.running.run", "start or join the mirror of a configuration and follow it"),
    "status": ("actors.cli.seeing.status", "show the state of a running mirror"),
    "lag": ("actors.cli.seeing.lag", "show how far behind every partition is, and why it makes no progress"),
    "report": (
        "actors.cli.seeing.report",
        "write lag, latency, throughput and RPO breaches of the last hours to an HTML page",
    ),
    "tables": (
        "actors.cli.seeing.tables",
        "list the tables of results; convert: add what earlier versions stored",
    ),
    "sql": (
        "actors.cli.seeing.sql",
        "ask the tables of lag, changes and proofs in SQL; without a query: explain their columns",
    ),
    "events": ("actors.cli.seeing.events", "show what has happened in a running mirror"),
    "logs": ("actors.cli.seeing.logs", "show what the mirror's processes on this machine have logged"),
    "console": ("actors.cli.seeing.console", "open the console of a running mirror in a browser, or print its address"),
    "pause": ("actors.cli.running.pause", "stop copying a flow or some of its topics until `resume`"),
    "resume": ("actors.cli.running.resume", "copy again what was paused or has stopped on an error"),
    "restart": ("actors.cli.running.restart", "replace the copiers of a flow, one by one"),
    "reload": ("actors.cli.running.reload", "apply a changed configuration to a running mirror"),
    "drain": ("actors.cli.running.drain", "move the copiers of a node to other nodes, before its shutdown"),
    "plan": ("actors.cli.clusters.plan", "show what differs in topics, configs and ACLs; changes nothing"),
    "apply": ("actors.cli.clusters.apply", "bring topics, configs and ACLs of the copies in step, once"),
    "audit": ("actors.cli.clusters.audit", "show what was changed on the copies, by whom, when and why"),
    "drift": (
        "actors.cli.seeing.drift",
        "show which configs of the copies somebody changed, and whether they were set right",
    ),
    "verify": ("actors.cli.proof.verify", "prove record by record that the copies are complete"),
    "compare-ends": (
        "actors.cli.proof.compare_ends",
        "compare where the partitions of a flow end on both clusters, and explain the difference",
    ),
    "quarantine": (
        "actors.cli.quarantine.quarantine",
        "list, show, replay or drop records that the target refused and that were left out of a copy",
    ),
    "translate": (
        "actors.cli.failover.translate",
        "show the exact target offsets of a consumer group, or commit them on the target",
    ),
    "move": ("actors.cli.dr.move", "move one consumer group to the target for good, as part of a migration"),
    "failover": ("actors.cli.failover.failover", "stop a flow and move its consumer groups to the target"),
    "dr": (
        "actors.cli.dr.dr",
        "switch over to the target, rehearse or preview a failover, preview a failback, save what only the source has",
    ),
    "stop": ("actors.cli.running.stop", "drain a running mirror, then stop it"),
    "setup": ("actors.cli.clusters.setup", "fetch what only some mirrors need: `setup s3` for a storage in a bucket"),
    "completion": ("actors.cli.completion", "print a shell script that completes raymirror's commands and options"),
    "help": ("actors.cli.help", "show how a command is used"),
}

EXIT_CODES = (
    "exit codes: 0 fine, 1 failed, 2 bad input, 3 no mirror (or no clusters) running, 4 failover: some partition is"
    " not drained or some group is not equal; dr preview: a failover would lose records, or not place every group;"
    " dr drill: something would have hurt; move: the group is not moved;"
    " translate: the source does not answer, 5 plan: there are changes to apply; check --diff: the files differ,"
    " 6 convert: something could not be carried"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; an error that was raised on purpose becomes one line."""
    words = list(sys.argv[1:] if argv is None else argv)
    remember_environment(os.environ)
    hide_in_tracebacks()
    over_http = os.environ.get(OVER_HTTP)
    asked_from(AskedFrom.HTTP if over_http == AskedFrom.HTTP else AskedFrom.COMMAND_LINE)
    parser = build_parser(words[0] if words else None)
    asked, extra = parser.parse_known_args(words)
    fill_places(parser, asked, extra)
    refuse_no_flow(parser, asked)
    with given_config(_repeated_config(words[0], asked)):
        return _ended(words, parser, asked)


def _repeated_config(command: str, asked: argparse.Namespace) -> str:
    """Return the configuration that advice repeats, empty if none: that of a server is not the file of its user."""
    if command not in REPEATS_CONFIG or OVER_HTTP in os.environ:
        return ""
    return str(getattr(asked, "config", None) or "")


def _ended(words: Sequence[str], parser: argparse.ArgumentParser, asked: argparse.Namespace) -> int:
    """Run the command that was asked for; return its exit code."""
    try:
        settle_config(parser, asked)
        with ended_by_signals():
            code = int(asked.run(asked))
            sys.stdout.flush()  # here, where a reader that has ended is no bug
            return code
    except (MirrorError, ClusterError) as error:
        config = getattr(asked, "config", None)
        text = worded(str(error), config) if config else str(error)
        print(f"raymirror {words[0]}: {own_redacted(text)}", file=sys.stderr)
        return exit_code(error)
    except OwnPolicyError as failed:
        print(f"raymirror {words[0]}: {own_redacted(str(failed))}", file=sys.stderr)
        return exits.UNUSABLE
    except EndSignalled as ended:
        return ended.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the pipe has ended, as `head` does. Without this, Python would fail again at its end.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        return UNREAD


def exit_code(error: MirrorError | ClusterError) -> int:
    """Map an error to an exit code: commands raise before they change anything, so most errors mean bad input.

    The class of any other error has an attribute `exit_code`. A command that a request over HTTP has started tells by
    its exit code whether the request is wrong: the server cannot tell that from the text.
    """
    if isinstance(error, ClusterError):
        return exits.FAILED
    if isinstance(error, WrongQuestion) and OVER_HTTP in os.environ:
        return ASKED_WRONGLY
    usual = exits.NO_MIRROR if isinstance(error, NoMirror) else exits.UNUSABLE
    return int(getattr(error, "exit_code", usual))


class _Version(argparse.Action):
    """Prints the version and exits; reads the version only then, because that takes time."""

    def __call__(self, parser: argparse.ArgumentParser, *_words: object) -> None:
        print(version_text())
        parser.exit()


def version_text() -> str:
    """Return the versions of raymirror, Python and Ray, and the way of a batch, as a bug report needs them."""
    from engine.wire import native  # loads the module, if there is one

    parts = f"Python {platform.python_version()}, Ray {_installed('ray')}; batches: {native.in_use()}"
    return f"raymirror {_installed('raymirror')} ({parts})"


def _installed(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # slow to import, and needed here only

    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"


def build_parser(*commands: str | None) -> argparse.ArgumentParser:
    """Build the parser: the named commands get their arguments, the other commands only their help line."""
    parser = argparse.ArgumentParser(prog="raymirror", description="Keep Kafka clusters in step.", epilog=EXIT_CODES)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, (module_name, help_text) in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=help_text, description=f"{help_text[0].upper()}{help_text[1:]}.")
        if name in commands:
            module = import_module(module_name)
            subparser.set_defaults(run=module.run)
            module.add_arguments(subparser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
