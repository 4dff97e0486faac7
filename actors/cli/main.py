"""Entry point of the `raymirror` command: which sub-commands there are, and what their outcomes mean as exit codes.

Each sub-command is a module with `add_parser(subparsers)`, which sets `run` as a default of its parser, and
`run(args) -> int`. Only the module that was asked for is imported, so `raymirror cluster` starts in a blink and never
imports Ray or Spark.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

OK: Final = 0
FAILED: Final = 1
BAD_INPUT: Final = 2
NO_MIRROR: Final = 3
# As a shell reports a program ended by SIGINT.
INTERRUPTED: Final = 130

# name: (module, help)
COMMANDS: Final = {
    "demo": ("actors.cli.demo", "two real clusters, a live mirror, a proof of the copy"),
    "cluster": ("actors.cli.cluster", "start, stop and show the embedded clusters"),
    "check": ("actors.cli.check", "read a configuration and say what is wrong or missing; changes nothing"),
    "run": ("actors.cli.run", "start or join a mirror and follow it"),
    "status": ("actors.cli.status", "show a running mirror"),
    "pause": ("actors.cli.pause", "stop copying a flow or some of its topics, until resumed"),
    "resume": ("actors.cli.resume", "go on copying what was paused or failed"),
    "stop": ("actors.cli.stop", "drain a running mirror and end it"),
}

EXIT_CODES = "exit codes: 0 fine, 1 failed, 2 bad input, 3 no mirror (or no clusters) running"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = build_parser(words[0] if words else None)
    asked = parser.parse_args(words)
    try:
        return int(asked.run(asked))
    except KeyboardInterrupt:
        return INTERRUPTED


def build_parser(command: str | None) -> argparse.ArgumentParser:
    """The parser, with the named command's own arguments; the other commands show their help line only."""
    parser = argparse.ArgumentParser(prog="raymirror", description="Keep Kafka clusters in step.", epilog=EXIT_CODES)
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, (module, help_text) in COMMANDS.items():
        if name == command:
            import_module(module).add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=help_text)
    return parser


if __name__ == "__main__":
    sys.exit(main())
