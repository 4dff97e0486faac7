"""`raymirror console`: opens the console of a running mirror in a browser, or prints its address.

If the server has users, the address has a token that logs in once, within two minutes. The supervisor gives it to a
process of its own user, or to one that reaches its Ray: who may stop the mirror may also look at it.
"""

import argparse
import os
import sys
import webbrowser
from collections.abc import Mapping

import msgspec

from actors.cli.common import exits
from actors.cli.common.connect_args import add_place_arguments, running_mirror
from actors.cli.common.user import user_name
from actors.local_socket.client import LocalMirror
from actors.model.messages import ConsoleDoor
from actors.model.requests import AskConsole
from policies.roles import ROLES, Role


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_place_arguments(parser)
    parser.add_argument(
        "--role", choices=ROLES, default=Role.ADMIN.value, help="what the session may do (default: admin)"
    )
    parser.add_argument("--no-open", action="store_true", help="only print the address; open no browser")
    parser.add_argument("--json", action="store_true", help="print one JSON object; open no browser")


def run(args: argparse.Namespace) -> int:
    """Print the address, and open it where there is a screen. Raises NoMirror, RequestRefused, NoConsole."""
    with running_mirror(args) as (mirror, _):
        data = mirror.send(AskConsole(user_name(), Role(args.role)))
        is_here = isinstance(mirror, LocalMirror)
    door = msgspec.msgpack.decode(data or b"", type=ConsoleDoor)
    address = door.address(is_here=is_here)
    if args.json:
        print(msgspec.json.encode({"address": address, "once": bool(door.token), "role": args.role}).decode())
        return exits.OK
    print(address)
    if door.token:
        print("It logs in once, within two minutes.", file=sys.stderr)
    if not args.no_open and has_screen(os.environ):
        webbrowser.open(address)
    return exits.OK


def has_screen(environment: Mapping[str, str]) -> bool:
    """Whether a browser with a window can be opened: not over a plain connection to a server."""
    return sys.platform == "darwin" or any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
