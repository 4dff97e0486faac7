"""`raymirror completion SHELL`: prints a script that completes commands, options and file names in a shell.

The script is static: a completion starts no Python.
"""

import argparse
from pathlib import Path

import shtab

from actors.cli.common import exits

SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="shell to print the script for")
    parser.epilog = (
        "bash: raymirror completion bash > ~/.local/share/bash-completion/completions/raymirror;"
        " zsh: raymirror completion zsh > DIR/_raymirror, where DIR is a folder of $fpath;"
        " fish: raymirror completion fish > ~/.config/fish/completions/raymirror.fish"
    )


def run(args: argparse.Namespace) -> int:
    print(script(args.shell))
    return exits.OK


def script(shell: str) -> str:
    """Return the script for a shell, built from the arguments of every command."""
    from actors.cli.main import COMMANDS, build_parser  # here, because `main` imports this module

    parser = build_parser(*COMMANDS)
    _complete_files(parser)
    return str(shtab.complete(parser, shell))


def _complete_files(parser: argparse.ArgumentParser) -> None:
    """Complete path arguments as file names, in nested commands too."""
    for action in parser._actions:
        if action.type is Path:
            action.complete = shtab.FILE  # type: ignore[attr-defined] # where shtab looks for it
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _complete_files(inner)
