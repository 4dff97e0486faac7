"""Everything that is checked before Ray starts: the file, the clusters, what would be copied. Changes nothing."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from actors.config_ref import is_shipped
from engine.config import load_config
from engine.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal, NotReady
from engine.mm2_preflight import Mm2Runs, OtherConnector, refuse_running_mm2
from engine.preflight import FlowPreview, preview
from engine.secrets import literal_secrets
from engine.settings import ConfigWarning, MirrorConfig


def prepare(
    path: Path, bear: Callable[[BrokerUnreachable], None] | None = None
) -> tuple[MirrorConfig, tuple[FlowPreview, ...]]:
    """Read a configuration and ask its clusters; see `engine.preflight.preview`, which says what it raises.

    Raises ConfigError, NotReady with all that is wrong, Mm2Runs where MM2 still copies a flow, OtherConnector where its
    positions lie elsewhere.
    """
    return asyncio.run(_prepare(load_config(path), bear))


async def _prepare(
    config: MirrorConfig, bear: Callable[[BrokerUnreachable], None] | None
) -> tuple[MirrorConfig, tuple[FlowPreview, ...]]:
    try:
        flows = await preview(config, bear)
    except NotReady as refused:
        raise NotReady(*refused.problems, *await _mm2_too(config)) from None
    more = await refuse_running_mm2(config, [flow.flow for flow in flows])
    texts = [
        (flow, text)
        for flow in flows
        for text in (flow.unfenced_text(), flow.expiry_text(), *flow.doubts, *flow.unreachable)
    ]
    idle = [warning for flow in flows for warning in flow.idle]
    denied = [ConfigWarning(0, str(flow.flow), text) for flow, text in texts if text]
    return msgspec.structs.replace(config, warnings=(*config.warnings, *more, *idle, *denied)), flows


async def _mm2_too(config: MirrorConfig) -> tuple[str, ...]:
    """Say also what MM2 is in the way of, where something else keeps the mirror from running already."""
    found: list[str] = []
    for flow in config.flows:
        try:
            await refuse_running_mm2(config, [flow.name])
        except (Mm2Runs, OtherConnector) as refused:
            found.append(str(refused))
        except (BrokerUnreachable, ConnectionLost, KafkaRefusal):
            continue  # of a cluster that is away the problems tell, and what one refuses to show comes when it is ready
    return tuple(found)


def shipped_secrets(path: Path, config: MirrorConfig) -> tuple[str, ...]:
    """Warn of passwords in a file that a Ray job has put into Ray's store with its working directory."""
    if not is_shipped(path, os.environ):
        return ()
    found = sorted({place for cluster in config.clusters.values() for place in literal_secrets(cluster)})
    return tuple(
        f"{path}, line {line}: {key} holds a password in clear, and this file was submitted with the working directory:"
        " whoever reaches Ray can read it; write ${file:PATH:KEY} or ${env:NAME} instead"
        for key, line in found
    )
