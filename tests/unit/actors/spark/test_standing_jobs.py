"""Jobs that Spark runs all the time in a mirror, and mirrors without such jobs."""

import msgspec

from actors.spark.standing_jobs import has_streams, standing_jobs
from engine.jobs.lag.options import LagCareOptions, LagOptions
from engine.jobs.proof.state import WatchOptions
from engine.jobs.runtime.table import JOBS
from policies.model import FlowName
from tests.unit.engine.config_files import mirror

ON = "raymirror.spark = on\nraymirror.storage = file:/var/lib/raymirror\n"


def test_every_flow_has_its_history_kept_and_cared_for() -> None:
    jobs = standing_jobs(mirror(ON + "raymirror.rpo.seconds = 30\nB->A.enabled = true\n"))
    assert {job.job for job in jobs} <= JOBS.keys()
    assert [job.name for job in jobs] == ["lag A->B", "lag B->A", "care lag"]
    lag = msgspec.msgpack.decode(jobs[0].options, type=LagOptions)
    assert (lag.flow, lag.rpo_s) == (FlowName("A", "B"), 30.0)
    assert msgspec.msgpack.decode(jobs[2].options, type=LagCareOptions) == LagCareOptions()


def test_without_spark_or_a_place_or_samples_there_is_none() -> None:
    assert standing_jobs(mirror()) == ()
    assert standing_jobs(mirror("raymirror.spark = on\n")) == ()
    assert standing_jobs(mirror("raymirror.storage = file:/s\nraymirror.progress.interval.seconds = 5\n")) == ()
    assert standing_jobs(mirror(ON + "A->B.raymirror.progress.interval.seconds = 0\n")) == ()


def test_copies_are_proven_all_the_time_where_that_is_wanted() -> None:
    quiet = "raymirror.progress.interval.seconds = 0\nraymirror.proof = on\n"
    (job,) = standing_jobs(mirror(ON + quiet + "raymirror.proof.interval.seconds = 60\n"))
    assert (job.name, job.job) == ("proof A->B", "proof_watch")
    assert msgspec.msgpack.decode(job.options, type=WatchOptions) == WatchOptions(
        flow=FlowName("A", "B"), interval_s=60.0
    )


def test_the_history_of_lag_is_a_stream_and_a_proof_is_none() -> None:
    quiet = "raymirror.progress.interval.seconds = 0\nraymirror.proof = on\n"
    assert [has_streams(mirror(text)) for text in (ON, ON + quiet, "")] == [True, False, False]
