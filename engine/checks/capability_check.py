"""Says what the brokers of a flow's two clusters cannot do, which guarantee that costs, and what raymirror does."""

from collections.abc import Iterator, Sequence

from engine.checks.creation_check import Problem, at_cluster
from engine.config.settings import FlowConfig, MirrorConfig
from engine.kafka.capabilities.probe import LARGEST, TIMESTAMPS, Ability, ClusterAbilities
from engine.kafka.capabilities.table import Side, Weight

_STAMPED = "LogAppendTime"


def concerns(flow: FlowConfig, lack: Ability) -> bool:
    """Whether a flow uses what a cluster lacks."""
    used = {
        "consumer groups": flow.groups.checkpoints or flow.groups.commits,
        "stable offsets of groups": flow.groups.checkpoints or flow.groups.commits,
        "changing configs": flow.config_sync.configs,
        "changing single configs": flow.config_sync.configs,
        "ACLs": flow.config_sync.acls,
        "deleting topics": False,
    }
    return used.get(lack.name, True)


def lack_problems(
    config: MirrorConfig, flow: FlowConfig, source: ClusterAbilities, target: ClusterAbilities
) -> list[Problem]:
    """Return what the flow cannot run without; in exactly-once mode that is transactions too."""
    problems: list[Problem] = []
    for cluster, lack in _lacks(source, target):
        needed = lack.weight is Weight.NEEDED or (lack.name == "transactions" and flow.commit_s > 0)
        if needed:
            right = (
                "disable exactly.once.source.support, or use brokers that have transactions"
                if lack.weight is not Weight.NEEDED
                else f"use brokers that have them, as Apache Kafka {lack.since} and newer"
            )
            problems.append(
                Problem(flow.name, at_cluster(config, cluster, lack_text(cluster, lack), right), stops=True)
            )
    return problems


def lack_doubts(flow: FlowConfig, source: ClusterAbilities, target: ClusterAbilities) -> tuple[str, ...]:
    """Return a sentence for each guarantee that the flow runs without, and for what the target changes in records."""
    lacks = [
        lack_text(cluster, lack)
        for cluster, lack in _lacks(source, target)
        if lack.weight is Weight.GUARANTEE and concerns(flow, lack)
    ]
    return (*lacks, *_changes(source, target))


def lack_text(cluster: str, lack: Ability) -> str:
    """Say which requests are missing, where, what that costs, and what raymirror does."""
    who = "its brokers do" if len(lack.brokers) != 1 else f"broker {lack.brokers[0]} does"
    if len(lack.brokers) > 1:
        who = f"its brokers {', '.join(map(str, lack.brokers))} do"
    text = f"cluster {cluster!r} lacks '{lack.name}': {who} not offer {', '.join(lack.requests)}: {lack.lost}"
    return text if lack.instead == "nothing" else f"{text}; instead, {lack.instead}"


def _lacks(source: ClusterAbilities, target: ClusterAbilities) -> Iterator[tuple[str, Ability]]:
    for side, found in ((Side.SOURCE, source), (Side.TARGET, target)):
        yield from ((found.cluster, lack) for lack in found.lacks(side))


def _changes(source: ClusterAbilities, target: ClusterAbilities) -> Iterator[str]:
    """Say what the target's own settings do to records that the source holds otherwise."""
    if _STAMPED in target.settings.get(TIMESTAMPS, ()) and source.settings.get(TIMESTAMPS) != (_STAMPED,):
        yield (
            f"cluster {target.cluster!r} stamps records when they are appended ({TIMESTAMPS} = {_STAMPED}): copies"
            " have the same records in the same order, with the target's time; set message.timestamp.type ="
            " CreateTime on the copies to keep the source's"
        )
    sent, taken = _numbers(source.settings.get(LARGEST, ())), _numbers(target.settings.get(LARGEST, ()))
    if sent and taken and max(sent) > min(taken):
        yield (
            f"cluster {target.cluster!r} takes batches up to {min(taken):,} bytes ({LARGEST}), and cluster"
            f" {source.cluster!r} up to {max(sent):,}: raymirror splits larger batches, which costs CPU; a single"
            " record that is larger is refused (raymirror.refused says what happens then)"
        )


def _numbers(values: Sequence[str]) -> list[int]:
    return [int(value) for value in values if value.isdecimal()]  # brokers that are not Apache's may say anything
