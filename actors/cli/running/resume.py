"""`raymirror resume`: copies again; partitions that had stopped on an error try again."""

import argparse
from pathlib import Path

from actors.cli.common.command_args import add_scope_arguments, say_done
from actors.cli.common.connect_args import add_place_arguments, add_url_arguments, running_mirror
from actors.cli.common.flags import warn
from actors.cli.common.questions import BadQuestion
from actors.model.requests import AnsweringMirror
from actors.model.states import Command, moved_text
from actors.model.status import MirrorStatus
from policies.words import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_scope_arguments(parser)
    parser.add_argument(
        "--forget-failover",
        action="store_true",
        help="resume a flow that was failed over; what applications wrote to the target is not copied back",
    )
    add_place_arguments(parser)
    add_url_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Send the command; copiers get it within about 1 s. Raises NoMirror, BadQuestion, and what `command` of a mirror
    raises: FailedOverFlow for a flow that was failed over. With `--forget-failover` also what
    `refuse_forgetting` raises.

    Exit code 1 if the target has not stored it yet.
    """
    if args.forget_failover and not args.flow:
        raise BadQuestion("--forget-failover needs a flow", "name it: raymirror resume 'A->B' --forget-failover")
    with running_mirror(args) as (mirror, _):
        if args.forget_failover:
            refuse_open_operation(mirror, args)
            mirror.command(Command.FORGET, args.flow)
        status = mirror.command(Command.RESUME, args.flow, tuple(args.topics))
    moved = {} if args.topics else moved_of(status, args.flow)
    code = say_done(args, "resume", status, moved=moved)
    for flow, topics in moved.items():
        warn(f"{counted(len(topics), 'topic')} of {flow} stays paused: {moved_text(flow, topics)}")
    return code


def moved_of(status: MirrorStatus, flow: str | None) -> dict[str, tuple[str, ...]]:
    """Return the topics that a resume leaves paused because their producers have moved, by flow (None: of all)."""
    return {one.flow: one.moved_topics for one in status.flows if flow in (None, one.flow) and one.moved_topics}


def refuse_open_operation(mirror: AnsweringMirror, args: argparse.Namespace) -> None:
    """Refuse to forget a failover in the middle of an operation, or while one of the reverse flow stands.

    Raises OperationOpen, ReverseFailedOver, NoClusterAnswers.
    """
    if getattr(args, "url", None):
        return  # its server looks, and refuses
    # imported here: Kafka's clients take 1 s on slow disks
    from actors.cli.failover.open_operation import refuse_forgetting_of

    if unseen := refuse_forgetting_of(Path(mirror.status().config_path), args.flow):
        warn(f"whether an operation of {args.flow} is open was not looked at: {unseen}; see: raymirror dr status")
