"""Arguments that many commands share (flow, configuration, JSON), and the printing of a command's outcome."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from actors.local import session
from engine.base.redaction import own_redacted

FLOW_FORM: Final = "SOURCE->TARGET (quote it)"


class _Flow(argparse.Action):
    """One flow, given as FLOW or as `--flow`; both are fine if they name the same flow."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        if values is None:  # no FLOW; `--flow` may have been given
            return
        named = getattr(namespace, self.dest, None)
        if named not in (None, values):
            parser.error(f"two flows are named, {named!r} and {values!r}: name only one")
        setattr(namespace, self.dest, values)


def add_flow_argument(parser: argparse.ArgumentParser, otherwise: str = "default: every flow") -> None:
    """Declare `[FLOW]` and `--flow FLOW`, which mean the same; `otherwise`: help text for the case of no flow."""
    parser.add_argument("flow", nargs="?", action=_Flow, metavar="FLOW", help=f"{FLOW_FORM}; {otherwise}")
    parser.add_argument("--flow", action=_Flow, dest="flow", metavar="FLOW", help="same as FLOW")


def add_needed_flow_argument(parser: argparse.ArgumentParser) -> None:
    """Declare `FLOW` and `--flow FLOW` of a command that needs a flow."""
    add_flow_argument(parser, "required")
    parser.set_defaults(needs_flow=True)


def refuse_no_flow(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """End with a usage error if a command needs a flow and none was named."""
    if getattr(args, "needs_flow", False) and args.flow is None:
        parser.error(f"which flow? give FLOW: {FLOW_FORM}")


def count(text: str) -> int:
    """Read how many of something are wanted, 0 or more; for argparse. Raises ValueError."""
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def add_config_place(
    parser: argparse.ArgumentParser, what: str = "mm2.properties or mirror.yaml", *, mirror_has_config: bool = True
) -> None:
    """Declare `[CONFIG]` and `--mirror NAME`; one of them names the configuration, see `settle_config`.

    Without `mirror_has_config` the command declares its `--mirror` itself, which means something else.
    """
    parser.add_argument("config", nargs="?", type=Path, metavar="CONFIG", help=what)
    if mirror_has_config:
        parser.add_argument(
            "--mirror", "--name", dest="mirror", metavar="NAME", help="use the configuration of this running mirror"
        )
    parser.set_defaults(needs_config=True, mirror_has_config=mirror_has_config)


def fill_places(parser: argparse.ArgumentParser, args: argparse.Namespace, extra: Sequence[str]) -> None:
    """Assign words after options to CONFIG and FLOW: argparse fills optional positionals only before an option."""
    empty = [name for name in ("config", "flow") if getattr(args, "needs_config", False) and not getattr(args, name, 0)]
    if len(extra) > len(empty) or any(word.startswith("-") for word in extra):
        parser.error(f"unrecognized arguments: {' '.join(extra)}")
    for name, word in zip(empty, extra, strict=False):
        setattr(args, name, Path(word) if name == "config" else word)


def settle_config(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Find the configuration file of a command with `add_config_place`: the given one, or that of a running mirror.

    With `--mirror` or `--url` there is no CONFIG, so the first positional argument is the flow. Raises NoMirror.
    """
    if not getattr(args, "needs_config", False):
        return
    by_mirror = args.mirror is not None and args.mirror_has_config
    named = "--url" if getattr(args, "url", None) is not None else "--mirror" if by_mirror else ""
    if not named:
        if args.config is None:
            or_mirror = ", or name the mirror that runs with it: --mirror NAME" if args.mirror_has_config else ""
            parser.error(f"which configuration? give CONFIG{or_mirror}")
        return
    if args.config is not None:
        if "flow" not in args or args.flow is not None or "->" not in str(args.config):
            parser.error(f"CONFIG and {named} both name a configuration: give only one of them")
        args.flow, args.config = str(args.config), None
    if by_mirror:
        args.config = session.config_of(args.mirror, os.environ)


def add_json_argument(parser: argparse.ArgumentParser, what: str = "print one JSON object") -> None:
    parser.add_argument("--json", action="store_true", help=what)


def warn(text: str) -> None:
    """Print a warning on standard error."""
    print(f"warning: {own_redacted(text)}", file=sys.stderr)


def say(args: argparse.Namespace, text: str, **facts: object) -> None:
    """Print the outcome of a command: a sentence, or with `--json` its facts as one object."""
    print(msgspec.json.encode(facts).decode() if args.json else text)


def say_facts(args: argparse.Namespace, **facts: object) -> None:
    """Print the outcome as one JSON object with `--json`; the text for people is on stderr already."""
    if args.json:
        print(msgspec.json.encode(facts).decode())
