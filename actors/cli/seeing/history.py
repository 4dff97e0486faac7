"""Finds and reads the history of lag, for `lag --history` and `report`; needs neither Ray nor Spark."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from actors.cli.common import exits
from actors.local import session
from engine.base.errors import MirrorError
from engine.config.storage import KEY as STORAGE_KEY
from engine.config.storage import Storage

if TYPE_CHECKING:
    from engine.jobs.lag.summary import Summary


class NoHistory(MirrorError):
    """No history of lag was found: the error says where the command searched, and how to name the place."""

    exit_code = exits.UNUSABLE

    def __init__(self, looked: str) -> None:
        super().__init__(looked)
        self.looked = looked

    def __str__(self) -> str:
        return (
            f"no history of lag found ({self.looked}): raymirror keeps it in {STORAGE_KEY} while Spark is on;"
            " name the place with --config FILE or --storage URI"
        )


class HistoryPlace(msgspec.Struct, frozen=True):
    """A storage, and the recovery point objectives of the configuration (seconds, by flow)."""

    storage: Storage
    rpo_s: dict[str, float] = {}


def add_history_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--storage",
        metavar="URI",
        help=f"where the history is, as in {STORAGE_KEY} (default: that of the configuration)",
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="configuration of the mirror (default: that of the running mirror)"
    )


def find_place(args: argparse.Namespace) -> HistoryPlace:
    """Find the storage: the given one, else that of the given configuration, else that of this machine's mirror.

    Raises NoHistory, BadStorage, ConfigError, SeveralMirrors.
    """
    from engine.config.config import load_config  # slow to import, and needed here only

    path = args.config or (None if args.storage else _running_config(args.mirror))
    config = None if path is None else load_config(path)
    rpo_s = {} if config is None else {str(flow.name): flow.rpo_s for flow in config.flows}
    if args.storage:
        return HistoryPlace(Storage.parse(args.storage), rpo_s)
    assert config is not None
    if config.storage is None:
        raise NoHistory(f"{path} has no {STORAGE_KEY}")
    return HistoryPlace(config.storage, rpo_s)


def _running_config(name: str | None) -> Path:
    states = session.living(os.environ, name)
    if not states:
        raise NoHistory("no --storage, no --config, and no mirror runs on this machine")
    if len(states) > 1:
        raise session.SeveralMirrors(tuple(session.short_name(state.namespace) for state in states))
    return Path(states[0].config_path)


def read_summary(
    place: HistoryPlace, since_ms: int, until_ms: int, flow: str | None = None, *, most_topics: int | None = None
) -> "Summary":
    """Summarize the history between two instants (Unix ms). Raises NoHistory, HistoryDamaged, NewerFormat."""
    from engine.jobs.history.windows import histories
    from engine.jobs.lag.summary import summarize

    found = histories(place.storage.path("history", "lag"))
    if not found:
        raise NoHistory(f"{place.storage.uri} has no history")
    objectives = {name: seconds for name, seconds in place.rpo_s.items() if flow in (None, name)}
    summary = summarize(found, since_ms, until_ms, rpo_s=objectives, most_topics=most_topics)
    if flow is None:
        return summary
    return msgspec.structs.replace(
        summary,
        flows=tuple(one for one in summary.flows if one.flow == flow),
        topics=tuple(one for one in summary.topics if one.flow == flow),
        topic_numbers={name: number for name, number in summary.topic_numbers.items() if name == flow},
        breaches=tuple(one for one in summary.breaches if one.flow == flow),
        stalls=tuple(one for one in summary.stalls if one.flow == flow),
    )
