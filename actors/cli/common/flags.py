"""Arguments that many commands have, declared alike: which flow, whether JSON, and what a command says at its end."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from actors.local import session

FLOW_FORM: Final = "SOURCE->TARGET (quote it)"


class _Flow(argparse.Action):
    """One flow, said by its place or by `--flow`; twice is fine if it is the same."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        if values is None:  # the place was left empty; the option may have been given
            return
        named = getattr(namespace, self.dest, None)
        if named not in (None, values):
            parser.error(f"two flows are named, {named!r} and {values!r}: name one")
        setattr(namespace, self.dest, values)


def add_flow_argument(parser: argparse.ArgumentParser, otherwise: str = "default: every flow") -> None:
    """Declare `[FLOW]` and `--flow FLOW`, which mean the same; `otherwise`: what is meant where none is given."""
    parser.add_argument("flow", nargs="?", action=_Flow, metavar="FLOW", help=f"{FLOW_FORM}; {otherwise}")
    parser.add_argument("--flow", action=_Flow, dest="flow", metavar="FLOW", help="the same")


def add_needed_flow_argument(parser: argparse.ArgumentParser) -> None:
    """Declare `FLOW` and `--flow FLOW` of a command that needs one."""
    add_flow_argument(parser, "needed")
    parser.set_defaults(needs_flow=True)


def refuse_no_flow(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """End with a usage error where a command needs a flow and none was named."""
    if getattr(args, "needs_flow", False) and args.flow is None:
        parser.error(f"which flow? give FLOW: {FLOW_FORM}")


def add_config_place(parser: argparse.ArgumentParser, what: str = "mm2.properties or mirror.yaml") -> None:
    """Declare `[CONFIG]` and `--mirror NAME`, of which one says whose configuration is meant; see `settle_config`."""
    parser.add_argument("config", nargs="?", type=Path, metavar="CONFIG", help=what)
    parser.add_argument(
        "--mirror", "--name", dest="mirror", metavar="NAME", help="instead of CONFIG: that of the mirror running here"
    )
    parser.set_defaults(needs_config=True)


def fill_places(parser: argparse.ArgumentParser, args: argparse.Namespace, extra: Sequence[str]) -> None:
    """Give words that stand behind options to the places left empty; argparse fills those before the first one only."""
    empty = [name for name in ("config", "flow") if getattr(args, "needs_config", False) and not getattr(args, name, 0)]
    if len(extra) > len(empty) or any(word.startswith("-") for word in extra):
        parser.error(f"unrecognized arguments: {' '.join(extra)}")
    for name, word in zip(empty, extra, strict=False):
        setattr(args, name, Path(word) if name == "config" else word)


def settle_config(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Find the file of a command with `add_config_place`: given, or that of a running mirror.

    With `--mirror` there is no CONFIG, so what stands in its place is the flow. Raises NoMirror.
    """
    if not getattr(args, "needs_config", False):
        return
    if args.mirror is None:
        if args.config is None:
            parser.error("which configuration? give CONFIG, or the mirror that runs with it: --mirror NAME")
        return
    if args.config is not None:
        if "flow" not in args or args.flow is not None or "->" not in str(args.config):
            parser.error("CONFIG and --mirror both say which configuration is meant: give one")
        args.flow = str(args.config)
    args.config = session.config_of(args.mirror, os.environ)


def add_json_argument(parser: argparse.ArgumentParser, what: str = "print one JSON object") -> None:
    parser.add_argument("--json", action="store_true", help=what)


def warn(text: str) -> None:
    """Print a warning on standard error."""
    print(f"warning: {text}", file=sys.stderr)


def say(args: argparse.Namespace, text: str, **facts: object) -> None:
    """Print the outcome of a command: a sentence, or with `--json` its facts as one object."""
    print(msgspec.json.encode(facts).decode() if args.json else text)


def say_facts(args: argparse.Namespace, **facts: object) -> None:
    """Print the outcome of a command as one object, where `--json` asks for it and people are told on stderr."""
    if args.json:
        print(msgspec.json.encode(facts).decode())
