"""Has Spark plan the rounds of configs and ACLs that Metadata asks for, and takes each plan back to it.

    Metadata: round 7f3a waits -> Spark: job "configs A->B 7f3a" -> its report -> Metadata, which applies the plan

Nothing here is stored: after a restart of the supervisor, a round that still waits is given to Spark again. Whatever
goes wrong, Metadata gets an answer with the reason, or none within its time, and then plans the round by itself.
"""

from collections.abc import Iterable
from typing import NamedTuple

from actors.control.ports import ConfigRound, MetadataPort, RoundAnswer, SparkPort
from actors.model.spark_status import SparkState
from engine.base.errors import MirrorError
from engine.jobs.runtime.runner import ENDED, JobState
from policies.model import FlowName

JOB = "config_round"


class _Planning(NamedTuple):
    round_id: str
    job_id: str


class ConfigRounds:
    """The rounds of all flows of a mirror, one at a time per flow."""

    def __init__(self, metadata: MetadataPort) -> None:
        self._metadata = metadata
        self._planning: dict[FlowName, _Planning] = {}
        self._answered: dict[FlowName, str] = {}

    def step(self, flows: Iterable[FlowName], spark: SparkPort) -> None:
        """Give Spark new rounds, and Metadata the plans that are ready."""
        flows = set(flows)
        for flow in self._planning.keys() - flows:
            self._drop(flow, spark)
        for flow in flows:
            asked, planning = self._metadata.config_round(flow), self._planning.get(flow)
            if planning is not None and (asked is None or asked.id != planning.round_id):
                self._drop(flow, spark)  # it waits no longer, or its process has died
                planning = None
            if asked is None or asked.id == self._answered.get(flow):
                continue
            if planning is None:
                self._begin(flow, asked, spark)
            else:
                self._follow(flow, planning, spark)

    def _begin(self, flow: FlowName, asked: ConfigRound, spark: SparkPort) -> None:
        if why := _why_not(spark):
            self._answer(flow, RoundAnswer(asked.id, None, why))
            return
        job_id = f"configs {flow} {asked.id}"
        self._planning[flow] = _Planning(asked.id, spark.submit(JOB, asked.request, job_id))

    def _follow(self, flow: FlowName, planning: _Planning, spark: SparkPort) -> None:
        answer = _answer_of(planning, spark)
        if answer is not None:
            self._drop(flow, spark)
            self._answer(flow, answer)

    def _answer(self, flow: FlowName, answer: RoundAnswer) -> None:
        self._answered[flow] = answer.id
        self._metadata.answer_round(flow, answer)

    def _drop(self, flow: FlowName, spark: SparkPort) -> None:
        spark.drop(self._planning.pop(flow).job_id)


def _why_not(spark: SparkPort) -> str:
    """Say why Spark plans nothing now; empty if it does."""
    status = spark.status()
    if status.state is SparkState.READY and status.executors:
        return ""
    why = f"Spark is {status.state}" if status.state is not SparkState.READY else "Spark has no executor"
    return f"{why}: {status.reason}" if status.reason else why


def _answer_of(planning: _Planning, spark: SparkPort) -> RoundAnswer | None:
    """Return the answer to a round; None while its job works."""
    try:
        line = spark.line(planning.job_id)
        if line.state is JobState.DONE and (plan := spark.report(planning.job_id)) is not None:
            return RoundAnswer(planning.round_id, plan)
    except MirrorError as unknown:  # Spark was replaced by a reload
        return RoundAnswer(planning.round_id, None, str(unknown))
    if line.state in ENDED:
        return RoundAnswer(planning.round_id, None, line.error or f"the Spark job was {line.state}")
    why = _why_not(spark)
    return RoundAnswer(planning.round_id, None, why) if why else None
