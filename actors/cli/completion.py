"""`raymirror completion SHELL`: a script that completes commands, options and file names in a shell.

The script is static: completing a word starts no Python.
"""

import argparse
from pathlib import Path

import shtab

from actors.cli.common import exits

SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")
    parser.epilog = (
        "bash: raymirror completion bash > ~/.local/share/bash-completion/completions/raymirror;"
        " zsh: raymirror completion zsh > a folder of $fpath, as _raymirror;"
        " fish: raymirror completion fish > ~/.config/fish/completions/raymirror.fish"
    )


def run(args: argparse.Namespace) -> int:
    print(script(args.shell))
    return exits.OK


def script(shell: str) -> str:
    """Write the script of a shell, from what every command declares."""
    from actors.cli.main import COMMANDS, build_parser  # which imports this module by name

    parser = build_parser(*COMMANDS)
    _complete_files(parser)
    return str(shtab.complete(parser, shell))


def _complete_files(parser: argparse.ArgumentParser) -> None:
    """Have arguments that are paths completed as such, in commands of commands too."""
    for action in parser._actions:
        if action.type is Path:
            action.complete = shtab.FILE  # type: ignore[attr-defined] # where shtab looks for it
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _complete_files(inner)
