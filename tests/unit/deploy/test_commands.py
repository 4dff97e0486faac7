"""Every command that a file of deploy/ runs or shows exists and takes these arguments."""

import configparser
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.cli.main import COMMANDS, build_parser
from actors.ray import follow, launch

CLONE = Path(__file__).parents[3]
DEPLOY = CLONE / "deploy"
# `raymirror WORDS` up to what ends a shell command or a code span; `[raymirror, WORD, ...]` in a flow sequence of YAML.
CALL = re.compile(r"(?:^|[\s`(\[])(?:raymirror|python -m actors)(,?) +([a-z][^\n`;|&#)\]]*)")


def calls() -> Iterator[tuple[str, tuple[str, ...]]]:
    for path in sorted(DEPLOY.rglob("*")):
        if path.suffix not in (".yaml", ".md", ".sh") and path.name != "Dockerfile":
            continue
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            for comma, text in CALL.findall(line):
                if (words := command_words(text.replace(",", " ") if comma else text)) is not None:
                    yield f"{path.relative_to(CLONE)}:{number}", words


def command_words(text: str) -> tuple[str, ...] | None:
    """Split a call into words; None for prose, whose first word is no command and has no option behind it."""
    words = shlex.split(text)
    if words[0] in COMMANDS or any(word.startswith("--") for word in words):
        return tuple(words)
    return None


@pytest.mark.parametrize(("place", "words"), [pytest.param(*call, id=call[0]) for call in calls()])
def test_the_command_is_there_and_takes_these_arguments(place: str, words: tuple[str, ...]) -> None:
    assert words[0] in COMMANDS, place
    build_parser(words[0]).parse_args(words)


def test_the_hooks_are_among_them() -> None:
    drains = {place.partition(":")[0] for place, words in calls() if words[:3] == ("drain", "--node", "this")}
    assert drains >= {"deploy/kubernetes/raycluster.yaml", "deploy/ray/cluster.yaml", "deploy/ray/on-prem.yaml"}


def test_a_command_that_is_not_there_would_be_seen() -> None:
    assert command_words("empty --node this") == ("empty", "--node", "this")
    assert "empty" not in COMMANDS
    with pytest.raises(SystemExit):
        build_parser("drain").parse_args(["drain", "--nodes", "this"])


def test_the_service_starts_and_drains_the_mirror() -> None:
    """SIGTERM reaches the command alone, and its drain has the time that it may take."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign] # systemd's keys have capitals
    unit.read(DEPLOY / "systemd" / "raymirror@.service")
    service = unit["Service"]
    words = shlex.split(service["ExecStart"].replace("%i", "orders"))
    args = build_parser("run").parse_args(words[1:])
    assert (args.config, args.name) == (Path("/etc/raymirror/orders.properties"), "orders")
    assert Path(words[0]).parent == Path("/opt/raymirror/venv/bin")
    again = shlex.split(service["ExecReload"].replace("%i", "orders"))
    reload = build_parser("reload").parse_args(again[1:])
    assert (again[0], reload.config, reload.mirror) == (words[0], args.config, args.name)
    assert service["KillMode"] == "mixed"
    assert float(service["TimeoutStopSec"]) > launch.DRAIN_S + follow.DRAIN_MARGIN_S + 20
