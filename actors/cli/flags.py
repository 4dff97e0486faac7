"""Arguments that many commands have, declared alike: which flow, whether JSON, and what a command says at its end."""

import argparse
from collections.abc import Sequence
from typing import Any, Final

import msgspec

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


def add_json_argument(parser: argparse.ArgumentParser, what: str = "print one JSON object") -> None:
    """Declare `--json`."""
    parser.add_argument("--json", action="store_true", help=what)


def say(args: argparse.Namespace, text: str, **facts: object) -> None:
    """Print the outcome of a command: a sentence, or with `--json` its facts as one object."""
    print(msgspec.json.encode(facts).decode() if args.json else text)


def say_facts(args: argparse.Namespace, **facts: object) -> None:
    """Print the outcome of a command as one object, where `--json` asks for it and people are told on stderr."""
    if args.json:
        print(msgspec.json.encode(facts).decode())
