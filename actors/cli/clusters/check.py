"""`raymirror check CONFIG`: reports what is wrong or missing, and what a mirror would copy; changes nothing.

With `--explain`, `--diff`, `--grants` or `--grant-commands` it asks no cluster: it explains one key of the file,
compares the file with another one, or lists the ACLs that the mirror needs.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.table import Table

from actors.cli.clusters.abilities import abilities_of, show_abilities
from actors.cli.clusters.explain import explain_key, lines_of
from actors.cli.clusters.file_difference import compare_files, rows_of, table_of
from actors.cli.clusters.grants import show_grants
from actors.cli.common import exits
from actors.cli.common.flags import add_config_place, add_json_argument, say_facts, warn
from actors.config.checks import prepare, with_clusters
from actors.model.needs import sites_of
from actors.observability.colours import stdout_console
from engine.base.errors import ConfigError, MirrorError
from engine.checks.preflight import FlowPreview
from engine.config.file.file_kind import worded
from engine.config.http.http_secrets import logins_of, tls_context
from engine.config.placement_config import NEAR_KEY
from engine.config.settings import ConfigWarning, HttpConfig, MirrorConfig
from engine.config.storage import KEY as STORAGE_KEY
from engine.config.storage import Storage
from engine.jobs.runtime.storage_access import BadStorageAccess
from policies.placement.sites import HERE, missing_site, missing_sites
from policies.words import counted

TOPICS_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_place(parser)
    add_json_argument(parser)
    only = parser.add_mutually_exclusive_group()
    only.add_argument(
        "--explain",
        metavar="KEY",
        help="only explain this key: what it does, its default, its value, and the line that gives it",
    )
    only.add_argument(
        "--diff", type=Path, metavar="OTHER", help="only compare with this file; exit code 5: something differs"
    )
    only.add_argument("--grants", action="store_true", help="only list the ACLs that the mirror needs (docs/grants.md)")
    only.add_argument("--grant-commands", action="store_true", help="the same as calls of kafka-acls, Kafka's own tool")
    parser.add_argument(
        "--abilities",
        action="store_true",
        help="show all that the brokers of each cluster can do, not only what they lack",
    )
    parser.add_argument(
        "--address",
        help="Ray cluster, HOST:PORT, to check raymirror.copiers.near (default: RAY_ADDRESS, else a local Ray)",
    )


def run(args: argparse.Namespace) -> int:
    """Check and print. Raises ConfigError, BrokerUnreachable, KafkaRefusal, NotReady: exit code 2."""
    if args.explain is not None:
        return _explain(args)
    if args.diff is not None:
        return _compare(args)
    if args.grants or args.grant_commands:
        return show_grants(args)
    try:
        config, flows = _prepare(args.config)
    except MirrorError as error:
        say_facts(args, config=str(args.config), ready=False, problems=problems_of(error, args.config))
        raise
    sites = site_warnings(config, args.address or os.environ.get("RAY_ADDRESS", ""))
    warnings = (*config.warnings, *sites, *storage_warnings(config.storage), *http_warnings(config.http))
    _warn(warnings, args.config)
    if args.json:
        say_facts(
            args,
            config=str(args.config),
            ready=True,
            warnings=warnings,
            notes=config.notes,
            flows=[msgspec.structs.replace(flow, abilities=()) for flow in flows],
            clusters=abilities_of(flows),
        )
        return exits.OK
    for note in config.notes:
        print(f"note: {args.config}: {note}")
    for flow in flows:
        show(flow)
    show_abilities(abilities_of(flows), whole=args.abilities)
    copies = any(flow.topics for flow in flows)
    print(f"{'ready' if copies else 'ready, but copies nothing: no topic matches'}: raymirror run", args.config)
    return exits.OK


def _explain(args: argparse.Namespace) -> int:
    """Explain one key; exit code 2 if nobody knows it. Raises ConfigError."""
    found = explain_key(args.config, args.explain)
    if args.json:
        say_facts(args, config=str(args.config), explains=found)
    else:
        print("\n".join(lines_of(found)))
    return exits.OK if found.answer else exits.UNUSABLE


def _compare(args: argparse.Namespace) -> int:
    """Show what another file changes; exit code 5 if anything. Raises ConfigError."""
    found = compare_files(args.config, args.diff)
    rows = rows_of(found)
    if args.json:
        say_facts(args, config=str(args.config), other=str(args.diff), differs=bool(rows), rows=rows)
    elif rows:
        stdout_console().print(table_of(found, args.config, args.diff))
    else:
        print(f"{args.config} and {args.diff} mean the same")
    return exits.CHANGES if rows else exits.OK


def _prepare(path: Path) -> tuple[MirrorConfig, tuple[FlowPreview, ...]]:
    """Read the file and ask the clusters, even if the file has mistakes. Raises what `run` raises."""
    try:
        return prepare(path)
    except ConfigError as wrong:
        error, doubts = with_clusters(path, wrong)
        _warn(doubts, path)
        raise error from None


def _warn(warnings: Sequence[ConfigWarning], path: Path) -> None:
    for warning in warnings:
        warn(f"{path}: {worded(str(warning), path)}")


def site_warnings(config: MirrorConfig, address: str) -> list[ConfigWarning]:
    """Warn of sites where copiers must run and that no Ray node is in. An empty address means a local Ray."""
    sites = sites_of(config)
    if not sites:
        return []
    if not address:
        return [ConfigWarning(0, NEAR_KEY, HERE)]
    from actors.ray.connect import OtherRelease, RayUnreachable, attach  # Ray takes seconds, and few files need it

    try:
        connection = attach(address, local=False)
    except (RayUnreachable, OtherRelease) as absent:
        return [ConfigWarning(0, NEAR_KEY, f"its sites were not checked: {absent}")]
    try:
        missing = missing_sites(sites, connection.ray.nodes())
    finally:
        connection.close()
    return [ConfigWarning(0, NEAR_KEY, f"{missing_site(site)}; until then its copiers wait") for site in missing]


def storage_warnings(storage: Storage | None) -> list[ConfigWarning]:
    """Warn of a bucket that cannot be listed from here. It is no error: perhaps only the nodes have credentials."""
    if storage is None or storage.is_local:
        return []
    from engine.jobs.runtime.storage_check import StorageUnusable, list_bucket  # imports pyarrow

    try:
        list_bucket(storage.uri)
    except StorageUnusable as cannot:
        return [ConfigWarning(0, STORAGE_KEY, f"{cannot.uri} cannot be used from here: {cannot.why}; {cannot.right}")]
    except BadStorageAccess as bad:
        return [ConfigWarning(0, STORAGE_KEY, f"{bad.wrong}; {bad.right}")]
    return []


def http_warnings(http: HttpConfig) -> list[ConfigWarning]:
    """Warn of a password, token or certificate of the HTTP server that cannot be read here. It is no error: perhaps
    only the node of the supervisor has it.
    """
    found = []
    for read in (logins_of, tls_context):
        try:
            read(http)
        except ConfigError as cannot:
            found.append(ConfigWarning(cannot.line, cannot.key, f"{cannot.wrong} on this machine; {cannot.right}"))
    return found


def problems_of(error: MirrorError, config: Path) -> list[str]:
    """Return the problems of an error, one text for each."""
    found = getattr(error, "problems", ()) or (str(error),)
    return [worded(one, config) for one in found]


def show(flow: FlowPreview) -> None:
    partitions = sum(topic.partitions for topic in flow.topics)
    topics, left_out = counted(len(flow.topics), "topic"), counted(flow.left_out, "topic")
    print(f"{flow.flow}: {topics}, {counted(partitions, 'partition')}; left out: {left_out}")
    if not flow.topics:
        print(
            f"note: {flow.flow}: no topic of {flow.flow.source!r} matches `topics` yet; a topic that appears later and"
            " matches is copied"
        )
    if flow.polled:
        print(f"note: {flow.flow}: consumer groups will be polled, not read as soon as they commit: {flow.polled}")
    table = Table("source topic", "target topic", "partitions", "target")
    for topic in flow.topics[:TOPICS_SHOWN]:
        table.add_row(
            topic.source, topic.target, str(topic.partitions), "exists" if topic.exists else "will be created"
        )
    if flow.topics:
        stdout_console().print(table)
    if len(flow.topics) > TOPICS_SHOWN:
        print(f"and {len(flow.topics) - TOPICS_SHOWN} more")
