"""Declares and reads how an operation keeps producers from the source: a switchover and a failback ask the same."""

import argparse

from engine.services.dr.switchover.build import SwitchoverChoices


def add_fence_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how the source is fenced, and what only the operator knows of it."""
    parser.add_argument(
        "--fence",
        choices=("acl", "command", "none"),
        default="acl",
        help="how producers are kept from the source: by ACLs (default), by the command of raymirror.dr.fence.command,"
        " or not at all, because you have stopped them",
    )
    parser.add_argument(
        "--principal",
        action="append",
        default=[],
        metavar="TYPE:NAME",
        help="also fence this principal; needed where ACLs do not name the producers (repeat it)",
    )
    parser.add_argument(
        "--own-principal",
        default="",
        metavar="TYPE:NAME",
        help="raymirror's own principal, if only the brokers know it",
    )
    parser.add_argument(
        "--everyone-allowed",
        choices=("yes", "no"),
        default="unknown",
        help="whether allow.everyone.if.no.acl.found is true on the source, if the brokers do not say",
    )


def fence_choices(args: argparse.Namespace) -> SwitchoverChoices:
    """Return what the operator has chosen of the fence."""
    return SwitchoverChoices(
        fence=args.fence,
        principals=tuple(args.principal),
        own_principal=args.own_principal,
        everyone=args.everyone_allowed,
    )
