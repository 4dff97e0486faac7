"""Decides how long the lag query rests after a batch: while nothing is copied, a micro-batch brings no news.

Each batch costs seconds of CPU and a dozen files. Samples that copiers write during a rest wait in the progress topic,
so a rest loses no sample: the windows come later, by minutes at most, and are the same. The supervisor ends a rest when
something moves (`actors/spark/activity.py`). A flow with an objective rests no longer than that objective: otherwise a
breach that the supervisor does not see would be reported late.
"""

import pyarrow as pa
import pyarrow.compute as pc

from engine.jobs.lag.options import LagOptions
from engine.jobs.tables.catalog import LAG
from policies.naming import HEARTBEATS

COLUMNS = [LAG.span, "topic", "records", "lag_records_max", "last_ms"]
"""The columns of a batch's windows that `rest_s` reads."""
_BEHIND_SPANS = 3.0


def rest_s(options: LagOptions, told: pa.Table, now_ms: int) -> float:
    """Return the seconds to rest after a batch that wrote these windows; 0: the next batch comes as usual."""
    longest_s = options.rest_s if not options.rpo_s else min(options.rest_s, options.rpo_s)
    return longest_s if longest_s > options.every_s and _is_still(options, told, now_ms) else 0.0


def _is_still(options: LagOptions, told: pa.Table, now_ms: int) -> bool:
    """Whether these windows reach to now, nothing was copied in them, and no lane is behind or has an unknown lag.

    Heartbeats do not count: they never stop. Another topic with such a name does not end a rest: its windows come late.
    """
    newest_ms = pc.max(told.column("last_ms")).as_py()
    if newest_ms is None or now_ms - newest_ms > _BEHIND_SPANS * options.every_s * 1000:
        return False  # more samples are waiting than the batch had room for
    topic = told.column("topic")
    lanes = told.filter(pc.and_(pc.not_equal(topic, ""), pc.invert(pc.ends_with(topic, pattern=HEARTBEATS))))
    rests = pc.and_(pc.equal(lanes.column("records"), 0), pc.equal(lanes.column("lag_records_max"), 0))
    return bool(pc.all(pc.fill_null(rests, False), min_count=0).as_py())
