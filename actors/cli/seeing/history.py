"""Finds and reads the history of lag, for `lag --history` and `report`; needs neither Ray nor Spark."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from actors.cli.common import exits
from actors.cli.common.running_config import running_config
from engine.base.errors import MirrorError
from engine.config.storage import KEY as STORAGE_KEY
from engine.config.storage import Storage

if TYPE_CHECKING:
    from actors.remote.http_mirror import HttpMirror
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


def find_place(args: argparse.Namespace, missing: type[NoHistory] = NoHistory) -> HistoryPlace:
    """Find the storage: the given one, else that of the given configuration, else that of this machine's mirror.

    `missing`: the error if there is none. Raises it, BadStorage, ConfigError, SeveralMirrors.
    """
    from engine.config.config import load_config  # slow to import, and needed here only

    path = args.config or (None if args.storage else running_config(args.mirror))
    if path is None and not args.storage:
        raise missing("no --storage, no --config, and no mirror runs on this machine")
    config = None if path is None else load_config(path)
    rpo_s = {} if config is None else {str(flow.name): flow.rpo_s for flow in config.flows}
    if args.storage:
        return HistoryPlace(Storage.parse(args.storage), rpo_s)
    assert config is not None
    if config.storage is None:
        raise missing(f"{path} has no {STORAGE_KEY}")
    return HistoryPlace(config.storage, rpo_s)


def read_summary(
    place: HistoryPlace, since_ms: int, until_ms: int, flow: str | None = None, *, most_topics: int | None = None
) -> "Summary":
    """Summarize the history between two instants (Unix ms). Raises NoHistory, TableError, NewerFormat."""
    from engine.jobs.lag.history import History
    from engine.jobs.lag.options import lag_table_uri
    from engine.jobs.lag.summary import summarize
    from engine.jobs.tables.errors import table_errors
    from engine.jobs.upgrade.old_history import OldHistory

    history = History(lag_table_uri(place.storage))
    with table_errors(place.storage.uri):
        old = OldHistory().places(place.storage)
    if old:
        print(f"{old[0]} is in no table yet: raymirror tables convert --storage {place.storage.uri}", file=sys.stderr)
    if not history.exists():
        raise NoHistory(f"{place.storage.uri} has no history")
    objectives = {name: seconds for name, seconds in place.rpo_s.items() if flow in (None, name)}
    return summarize(history, since_ms, until_ms, flow=flow, rpo_s=objectives, most_topics=most_topics)


def remote_summary(mirror: "HttpMirror", flow: str | None, since_ms: int, most_topics: int | None) -> "Summary":
    """Have a mirror behind `--url` summarize its history of one flow, or of all. Raises NoHistory, MirrorLost."""
    from engine.jobs.lag.summary import Summary  # imports pyarrow, which is needed here only

    flows = [one.flow for one in mirror.status().flows if flow in (None, one.flow)]
    if not flows:
        raise NoHistory(f"the mirror at {mirror.namespace} has no flow {flow}")
    query = f"since={since_ms}" + (f"&topics={most_topics}" if most_topics is not None else "")
    found = [mirror.history(name, query) for name in flows]
    if not all(found):
        raise NoHistory(f"the mirror at {mirror.namespace} keeps none")
    parts = [msgspec.convert(one, Summary) for one in found]
    return msgspec.structs.replace(
        parts[0],
        flows=tuple(point for part in parts for point in part.flows),
        topics=tuple(point for part in parts for point in part.topics),
        topic_numbers={name: number for part in parts for name, number in part.topic_numbers.items()},
        breaches=tuple(one for part in parts for one in part.breaches),
        stalls=tuple(one for part in parts for one in part.stalls),
    )
