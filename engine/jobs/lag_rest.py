"""How long the query of lag rests after a batch: while nothing is copied, a micro-batch tells only that nothing is.

Each costs seconds of CPU and a dozen files. What copiers write meanwhile waits in the progress topic, so a rest loses
no sample: the windows come later, by minutes at most, and are the same. The supervisor ends a rest when something moves
(`actors/spark/activity.py`). A flow with an objective rests no longer than that objective, or its breach would be told
late if nobody saw it.
"""

import pyarrow as pa
import pyarrow.compute as pc

from engine.jobs.history import BEGINS
from engine.jobs.lag_terms import LagTerms
from policies.naming import HEARTBEATS

COLUMNS = [BEGINS, "topic", "records", "lag_records_max", "last_ms"]
"""Of the windows of a batch, what `rest_s` looks at."""
_BEHIND_SPANS = 3.0


def rest_s(terms: LagTerms, told: pa.Table, now_ms: int) -> float:
    """Give the seconds to rest after a batch that told these windows; 0: the next batch comes as usual."""
    longest_s = terms.rest_s if not terms.rpo_s else min(terms.rest_s, terms.rpo_s)
    return longest_s if longest_s > terms.every_s and _is_still(terms, told, now_ms) else 0.0


def _is_still(terms: LagTerms, told: pa.Table, now_ms: int) -> bool:
    """Whether these windows reach to now, nothing was copied in them, and no lane is behind or of unknown lag.

    Heartbeats do not count: they never stop. A topic that is only named like one is seen a rest later.
    """
    newest_ms = pc.max(told.column("last_ms")).as_py()
    if newest_ms is None or now_ms - newest_ms > _BEHIND_SPANS * terms.every_s * 1000:
        return False  # samples wait that the batch had no room for
    topic = told.column("topic")
    lanes = told.filter(pc.and_(pc.not_equal(topic, ""), pc.invert(pc.ends_with(topic, pattern=HEARTBEATS))))
    rests = pc.and_(pc.equal(lanes.column("records"), 0), pc.equal(lanes.column("lag_records_max"), 0))
    return bool(pc.all(pc.fill_null(rests, False), min_count=0).as_py())
