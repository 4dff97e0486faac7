"""Checks that run before Ray starts: the file, the clusters, the topics to copy. They change nothing."""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from actors.config.config_ref import is_shipped
from engine.base.errors import BrokerUnreachable, ConfigError, ConnectionLost, KafkaRefusal, MirrorError, NotReady
from engine.checks.creation_check import Problem
from engine.checks.mm2_preflight import Mm2Runs, OtherConnector, refuse_running_mm2
from engine.checks.partial_check import check_partly
from engine.checks.preflight import FlowPreview, preview
from engine.config.config import load_config, load_partly
from engine.config.config_errors import parts
from engine.config.http.http_config import secrets_of
from engine.config.secrets import literal_secrets
from engine.config.settings import ConfigWarning, MirrorConfig


def prepare(path: Path, on_absent: Callable[[str], None] | None = None) -> tuple[MirrorConfig, tuple[FlowPreview, ...]]:
    """Read a configuration and ask its clusters. Raises what `engine.checks.preflight.preview` raises, and more:

    ConfigError, NotReady with every problem, Mm2Runs if MM2 still copies a flow, OtherConnector if MM2 stores its
    positions elsewhere. `on_absent` gets a sentence about each unreachable cluster, which is no error then.
    """
    return ask_clusters(load_config(path), on_absent)


def with_clusters(path: Path, wrong: ConfigError) -> tuple[MirrorError, tuple[ConfigWarning, ...]]:
    """Add the problems of the clusters to the mistakes of a file, as far as the file allows; return warnings too."""
    config, mistakes = load_partly(path), parts(wrong)
    if config is None:
        return wrong, ()
    found = asyncio.run(check_partly(config, mistakes))
    return (NotReady(*map(str, mistakes), *found.problems) if found.problems else wrong), found.doubts


def ask_clusters(
    config: MirrorConfig,
    on_absent: Callable[[str], None] | None = None,
    on_denied: Callable[[str], None] | None = None,
) -> tuple[MirrorConfig, tuple[FlowPreview, ...]]:
    """Ask the clusters of a configuration. Raises what `prepare` raises, except ConfigError.

    `on_denied` gets a sentence about each missing right that one flow waits for while others start.
    """
    return asyncio.run(_prepare(config, on_absent, on_denied))


def unchecked_flows(config: MirrorConfig, checked: Sequence[FlowPreview]) -> tuple[str, ...]:
    """Name the flows that have to be checked later: a cluster is unreachable, or a right is missing."""
    known = {one.flow for one in checked}
    return tuple(str(flow.name) for flow in config.flows if flow.name not in known)


def awaited(config: MirrorConfig, alias: str, absent: BrokerUnreachable) -> str:
    """Say that a cluster is unreachable, where its addresses are set, and which flows wait for it."""
    flows = [str(flow.name) for flow in config.flows if alias in flow.name]
    wait, ask, begin = ("wait", "ask", "begin") if len(flows) > 1 else ("waits", "asks", "begins")
    return (
        f"{absent}; {' and '.join(flows)} {wait} for it, {ask} again every few seconds, and {begin} when it answers,"
        " unless a failover has stopped the flow"
    )


def awaited_right(problem: Problem) -> str:
    """Say which right is missing, and which flow waits for it."""
    return f"{problem.text}; {problem.flow} waits for it, asks again every few seconds, and begins when it has it"


async def _prepare(
    config: MirrorConfig, on_absent: Callable[[str], None] | None, on_denied: Callable[[str], None] | None = None
) -> tuple[MirrorConfig, tuple[FlowPreview, ...]]:
    try:
        flows, more = await _ask(config, on_absent, on_denied)
    except (BrokerUnreachable, ConnectionLost) as lost:  # a cluster became unreachable during the checks
        if on_absent is None or (isinstance(lost, BrokerUnreachable) and not lost.may_pass):
            raise
        on_absent(f"{lost}; the mirror starts, and checks again before a flow begins")
        return config, ()
    idle = [warning for flow in flows for warning in flow.idle]
    denied = [ConfigWarning(0, str(flow.flow), text) for flow in flows for text in flow.texts]
    return msgspec.structs.replace(config, warnings=(*config.warnings, *more, *idle, *denied)), flows


async def _ask(
    config: MirrorConfig, on_absent: Callable[[str], None] | None, on_denied: Callable[[str], None] | None
) -> tuple[tuple[FlowPreview, ...], tuple[ConfigWarning, ...]]:
    away = None if on_absent is None else lambda alias, absent: on_absent(awaited(config, alias, absent))
    hold = None if on_denied is None else lambda problem: on_denied(awaited_right(problem))
    try:
        flows = await preview(config, away, hold)
    except NotReady as refused:
        raise NotReady(*refused.problems, *await _mm2_too(config)) from None
    return flows, await refuse_running_mm2(config, [flow.flow for flow in flows])


async def _mm2_too(config: MirrorConfig) -> tuple[str, ...]:
    """Return MM2's conflicts with the flows, to report them together with the other problems."""
    found: list[str] = []
    for flow in config.flows:
        try:
            await refuse_running_mm2(config, [flow.name])
        except (Mm2Runs, OtherConnector) as refused:
            found.append(str(refused))
        except (BrokerUnreachable, ConnectionLost, KafkaRefusal):
            continue  # an unreachable cluster is among the problems; a refusal is reported when the rest is in order
    return tuple(found)


def shipped_secrets(path: Path, config: MirrorConfig) -> tuple[str, ...]:
    """Warn about passwords in a file that a Ray job has put into Ray's object store with its working directory."""
    if not is_shipped(path, os.environ):
        return ()
    own = [
        config.clusters[alias].for_client(client.login)
        for flow in config.flows
        for alias in config.clusters
        for client in flow.clients_at(alias)
    ]
    of_http = {
        (key, config.http.lines.get(key, 0)) for key, value in secrets_of(config.http).items() if "${" not in value
    }
    found = sorted(of_http.union(*(literal_secrets(cluster) for cluster in (*config.clusters.values(), *own))))
    return tuple(
        f"{path}, line {line}: {key} holds a plain-text password, and this file was submitted with the working"
        " directory: everyone who reaches Ray can read it; write ${file:PATH:KEY} or ${env:NAME} instead"
        for key, line in found
    )
