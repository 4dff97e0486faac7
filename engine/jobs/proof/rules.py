"""The rules of a proof of copy, in SQL that Spark and SQLite both run: a record's digest, its place, its pair.

    contents -> placed (source offset of every record, by the map) -> digests, one row per range
                                                                   -> paired, for ranges whose digests differ

A record's digest is two 64-bit hashes of everything that a consumer sees except offset and topic: 128 bits against
chance, not against forgery. The hash covers the length of every value, and -1 for null, because Spark's hash skips
nulls. A range's digest is the XOR of its records' digests, each hashed with its source offset. So it shows the order of
records, and can be added up in any order.

A function returns the text of one SELECT. `{name}` in it is a table that `ProofPlace.query` (`place.py`) fills in.
The texts use only functions and operators that both engines have, with the same answer to NULL. Hints are comments to
SQLite. SQLite looks numbers up by an index only if both sides are declared as numbers, so places are cast (Spark
ignores that).
"""

from typing import NamedTuple

NO_RANGE = -1
"""The range of a target record that the map does not know."""
CREATE_TIME = 0
FIELDS = ("key", "value", "headers", "timestamp", "type")
LANES = ("topic", "partition", "lane", "base", "width", "stamped")
"""Columns of the table from partition to lane; `base`: the first offset of the buckets of a target."""
RUNS = ("run_lane", "bucket", "first", "behind", "shift")
WINDOWS = ("w_lane", "s_low", "s_high", "t_low", "t_high", "core_from", "core_to")
STEPS = ("step_lane", "start")
COMPACTING = ("c_lane", "source_compacts", "target_compacts")
REFUSED = ("f_lane", "f_offset")
_KEPT = ("offset", "h1", "h2", "key", "key2", *FIELDS[1:])


class Dialect(NamedTuple):
    """The expressions that differ in Spark and SQLite: the hash of values, and a raw record's headers and time."""

    hash: str
    headers: str
    """The count, names and values, with their lengths."""
    time: str
    """The timestamp in microseconds."""


def contents(say: Dialect, *, is_target: bool) -> str:
    """Reduce `records` of `lanes` to lane, offset, two hashes of the whole record, and one hash of each field."""
    key, value = _measured("r.key"), _measured("r.value")
    time = f"CASE WHEN l.stamped = 1 THEN CAST(0 AS BIGINT) ELSE {say.time} END"
    # A copy of a source record has CreateTime: a target accepts nothing else from a producer.
    kind = f"CASE WHEN l.stamped = 1 THEN {CREATE_TIME} ELSE {'r.timestampType' if is_target else CREATE_TIME} END"
    whole = f"{key}, {value}, {say.headers}, {time}, {kind}"
    return f"""
        SELECT /*+ BROADCAST(l) */ l.lane, r.offset, l.base, l.width,
          {say.hash}(1, {whole}) AS h1,
          {say.hash}(2, {whole}) AS h2,
          CAST(COALESCE(LENGTH(r.key), 0) + COALESCE(LENGTH(r.value), 0) AS BIGINT) AS bytes,
          {say.hash}(1, {key}) AS key,
          {say.hash}(2, {key}) AS key2,
          {say.hash}({value}) AS value,
          {say.hash}({say.headers}) AS headers,
          {time} AS timestamp,
          CAST({kind} AS BIGINT) AS type,
          r.value IS NULL AS tombstone
        FROM {{records}} r JOIN {{lanes}} l ON r.topic = l.topic AND r.partition = l.partition"""


def _measured(name: str) -> str:
    return f"COALESCE(LENGTH({name}), -1), {name}"


def at_source() -> str:
    """Give every record of the `source` its place, `at`: its own offset."""
    return "SELECT s.*, CAST(s.offset AS BIGINT) AS at FROM {source} s"


def placed() -> str:
    """Give every record of the `target` the offset of its source record by the `runs`, `at`; null if it has none."""
    return """
        SELECT /*+ BROADCAST(r) */ t.*, CAST(t.offset + r.shift AS BIGINT) AS at
        FROM {target} t LEFT JOIN {runs} r
          ON t.lane = r.run_lane AND CAST((t.offset - t.base) / t.width AS BIGINT) = r.bucket
          AND t.offset >= r.first AND t.offset < r.behind"""


def ranged(range_records: int) -> str:
    """Number the ranges of the `records`: `range_records` source offsets each, from the piece's first one (`steps`)."""
    return f"""
        SELECT /*+ BROADCAST(p) */ r.*,
          COALESCE(CAST((r.at - p.start) / {range_records} AS BIGINT), CAST({NO_RANGE} AS BIGINT)) AS range
        FROM {{records}} r JOIN {{steps}} p ON r.lane = p.step_lane"""


def digests(say: Dialect) -> str:
    """Digest ranges: lane, range, records, bytes, d1, d2, and the first and last offset of that side's own log."""
    return f"""
        SELECT lane, range, COUNT(1) AS records, SUM(bytes) AS bytes,
          BIT_XOR({say.hash}(h1, h2, COALESCE(at, offset))) AS d1,
          BIT_XOR({say.hash}(COALESCE(at, offset), h2, h1)) AS d2,
          MIN(offset) AS first, MAX(offset) AS last
        FROM {{records}} GROUP BY lane, range"""


def accepted() -> str:
    """Leave out the `records` of a source that its target refused (`refused`): they superseded nothing there."""
    return """
        SELECT /*+ BROADCAST(f) */ r.* FROM {records} r LEFT JOIN {refused} f
          ON r.lane = f.f_lane AND r.offset = f.f_offset
        WHERE f.f_lane IS NULL"""


def inside(side: str) -> str:
    """Keep the `records` that lie in the window (`windows`) of their lane, on one side: s or t."""
    return f"""
        SELECT /*+ BROADCAST(w) */ r.* FROM {{records}} r JOIN {{windows}} w
          ON r.lane = w.w_lane AND r.offset >= w.{side}_low AND r.offset < w.{side}_high"""


def paired() -> str:
    """Join `source` and `target` by source offset: lane, `at` (null: not in the map), both records, and `equal`."""
    both = ", ".join(f"{side}.{name} AS {side}_{name}" for side in ("s", "t") for name in _KEPT)
    return f"""
        SELECT COALESCE(s.lane, t.lane) AS lane, COALESCE(s.at, t.at) AS at,
          COALESCE(s.tombstone, t.tombstone) AS tombstone, {both},
          COALESCE(s.h1 = t.h1 AND s.h2 = t.h2, FALSE) AS equal
        FROM {{source}} s FULL OUTER JOIN {{target}} t ON s.lane = t.lane AND s.at = t.at"""


def unexcused() -> str:
    """Mark nothing in `left` as excused: no log compacts."""
    return "SELECT l.*, FALSE AS excused FROM {left} l"


def unequal() -> str:
    """Keep all pairs in `left`; of lanes with a log that compacts (`compacting`) only those that differ."""
    return """
        SELECT /*+ BROADCAST(c) */ l.* FROM {left} l LEFT JOIN {compacting} c ON l.lane = c.c_lane
        WHERE c.c_lane IS NULL OR NOT l.equal"""


def latest() -> str:
    """Find the last place of every key in both logs, as a source offset; a record outside the map has none."""
    return """
        SELECT lane AS l_lane, key AS l_key, key2 AS l_key2, MAX(at) AS last_at
        FROM (SELECT lane, key, key2, at FROM {source} UNION ALL SELECT lane, key, key2, at FROM {target}) x
        GROUP BY lane, key, key2"""


def superseded() -> str:
    """Mark as `excused` a record on one side only that the log cleaner may have removed on the other.

    That is a tombstone, or a record whose key comes again later. `left` has the pairs, `last` the last place of every
    key, `compacting` which side's log compacts.
    """
    return """
        SELECT /*+ BROADCAST(c) */ l.*,
          COALESCE(
            ((l.t_offset IS NULL AND c.target_compacts)
              OR (l.s_offset IS NULL AND l.at IS NOT NULL AND c.source_compacts))
            AND (l.tombstone OR k.last_at > l.at), FALSE) AS excused
        FROM {left} l LEFT JOIN {compacting} c ON l.lane = c.c_lane
          LEFT JOIN {last} k ON l.lane = k.l_lane
            AND COALESCE(l.s_key, l.t_key) = k.l_key AND COALESCE(l.s_key2, l.t_key2) = k.l_key2"""


def excused() -> str:
    """Count the excused pairs of `left` within the core of their lane's window (`windows`): lane, excused."""
    return """
        SELECT l.lane, COUNT(1) AS excused FROM {left} l JOIN {windows} w
          ON l.lane = w.w_lane AND l.at >= w.core_from AND l.at < w.core_to
        WHERE l.excused GROUP BY l.lane"""


def first_of(share: int) -> str:
    """Take the first `share` pairs of `left` per lane that are not excused, and as many that the map does not know."""
    return f"""
        SELECT * FROM (
          SELECT l.*, ROW_NUMBER() OVER (PARTITION BY l.lane, l.at IS NULL ORDER BY l.at, l.t_offset) AS nth
          FROM {{left}} l WHERE NOT l.excused) x
        WHERE nth <= {share}"""
