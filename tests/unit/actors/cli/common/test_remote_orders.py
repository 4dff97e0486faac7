"""Orders behind `--url`: the mirror makes of each the command that was typed, and no option is lost silently."""

import argparse
from typing import Any

import pytest

from actors.api.orders import RULES, words_of
from actors.api.view import CommandPlace
from actors.cli.common.flags import fill_places, settle_config
from actors.cli.common.questions import BadQuestion
from actors.cli.common.remote_orders import REMOTE_ORDERS, order_of
from actors.cli.main import build_parser
from actors.model.run_kinds import RunKind

FLOW, FILE, URL = "A->B", "/etc/mm2.properties", "--url=http://host:8083"
PLACE = CommandPlace(mirror="raymirror-A-B")
FENCE = ("--fence=none", "--principal=User:a", "--principal=User:b", "--own-principal=User:m", "--everyone-allowed=no")
TYPED: dict[RunKind, tuple[str, ...]] = {
    RunKind.FAILOVER: (
        *("failover", FLOW, "--now", "--no-commit", "--timeout=9", "--keep-tombstones=3", "--despite-operation"),
    ),
    RunKind.SWITCHOVER: ("dr", "switchover", FLOW, "--yes", "--ignore=x", "--ignore=y", "--timeout=9", *FENCE),
    RunKind.FAILBACK: ("dr", "failback", FLOW, "--yes", "--choice=discard", *FENCE),
    RunKind.DRILL: ("dr", "drill", FLOW, "--groups=a.*", "--groups=b", "--sample=2", "--timeout=9"),
    RunKind.RESUME: ("dr", "resume", FLOW, "--ignore=x"),
    RunKind.ABORT: ("dr", "abort", FLOW, "--why=late"),
    RunKind.VERIFY: ("verify", FLOW, "--topics=a,b", "--from=2h", "--to=1h", "--again", "--spark=never"),
    RunKind.APPLY: ("apply", FLOW),
    RunKind.REPLAY: ("quarantine", "replay", FLOW, "--unsure", "--record=t-0@1", "--topic=u"),
    RunKind.DROP: ("quarantine", "drop", FLOW, "--all"),
    RunKind.TRANSLATE: ("translate", "g", FLOW, "--apply", "--backwards"),
    RunKind.MOVE: (*("move", "g", FLOW, "--timeout=9", "--leave-uncopied", "--backwards", "--accept-repeats"),),
    RunKind.MOVE_UNDO: ("move", "g", f"--flow={FLOW}", "--undo"),
    RunKind.MOVE_TOPICS: (
        *("move", "--topics=t.*", f"--flow={FLOW}", "--yes", "--leave-group=g", "--ignore=x", "--timeout=9", *FENCE),
    ),
}
OF_THE_PLACE = {"address", "mirror", "storage", "url", "login"}
"""What `remote_mirror` refuses or reads."""
OF_THE_PARSER = {"run", "version", "action", "needs_flow", "needs_config", "mirror_has_config", "flow", "json", "yes"}
CHOSEN = {"apply", "topics", "group", "undo", "list"}
"""What chooses the order itself."""


def parsed(*words: str) -> argparse.Namespace:
    parser = build_parser(words[0])
    args, extra = parser.parse_known_args(words)
    fill_places(parser, args, extra)
    settle_config(parser, args)
    return args


class Watched(argparse.Namespace):
    """Arguments that note which of them are read."""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            object.__getattribute__(self, "_read").add(name)
        return object.__getattribute__(self, name)


@pytest.mark.parametrize("kind", RunKind)
def test_the_mirror_makes_the_command_that_was_typed(kind: RunKind) -> None:
    typed = vars(parsed(*TYPED[kind], URL))
    made = words_of(kind, order_of(kind, parsed(*TYPED[kind], URL), FLOW), FILE, PLACE, as_text=True)
    again = vars(parsed(*made))
    other = {name for name in typed if typed[name] != again[name]} - OF_THE_PLACE - {"config"}
    assert other == set()
    assert str(again["config"]) == FILE
    assert again["json"] is False


@pytest.mark.parametrize("kind", RunKind)
def test_every_option_has_a_field_or_is_refused(kind: RunKind) -> None:
    args, read = Watched(), set[str]()
    object.__setattr__(args, "_read", read)
    for name, value in vars(parsed(*TYPED[kind], URL)).items():
        setattr(args, name, value)
    order = order_of(kind, args, FLOW)
    assert isinstance(order, RULES[kind].order)
    declared = {*vars(parsed(*TYPED[kind], URL))}
    silent = declared - read - OF_THE_PLACE - OF_THE_PARSER - CHOSEN
    assert silent == SILENT.get(kind, set())


SILENT = {
    RunKind.TRANSLATE: {"timeout"},  # of --hold-until-equal, which is refused
    # of a group, or of topics: typed with the other, the command here ignores them too
    RunKind.MOVE: {"fence", "principal", "own_principal", "everyone_allowed", "ignore", "leave_group"},
    RunKind.MOVE_UNDO: {
        *("fence", "principal", "own_principal", "everyone_allowed", "ignore", "leave_group", "timeout"),
        *("dry_run", "leave_uncopied", "backwards", "accept_repeats"),
    },
    RunKind.MOVE_TOPICS: {"leave_uncopied", "backwards", "accept_repeats"},
}


@pytest.mark.parametrize("kind", RunKind)
def test_what_is_not_given_is_as_the_parser_has_it(kind: RunKind) -> None:
    args = parsed(*TYPED[kind], URL)
    given = {name: getattr(args, name) for name in REMOTE_ORDERS[kind].without}
    assert given == REMOTE_ORDERS[kind].without


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        (RunKind.FAILOVER, "--back"),
        (RunKind.SWITCHOVER, "--reverse-config=/tmp/f"),
        (RunKind.FAILBACK, "--make-anew"),
        (RunKind.FAILBACK, "--release-source"),
        (RunKind.FAILBACK, "--export=/tmp/x"),
        (RunKind.DRILL, "--clean"),
        (RunKind.DRILL, "--config=/tmp/f"),
        (RunKind.VERIFY, "--cores=2"),
        (RunKind.TRANSLATE, "--hold-until-equal"),
        (RunKind.MOVE, "--watch=1"),
        (RunKind.MOVE_TOPICS, "--undo"),
    ],
)
def test_an_option_without_a_field_is_refused(kind: RunKind, option: str) -> None:
    with pytest.raises(BadQuestion, match="type the command on a machine that reaches the clusters") as refused:
        order_of(kind, parsed(*TYPED[kind], URL, option), FLOW)
    assert f"--url does not go together with {option.partition('=')[0]}," in str(refused.value)
