"""Care of a history, beside its writer and its readers: compaction, retention, clearing away.

Nothing that a reader may still be looking at is removed: files and commits go when they have not counted for `grace_s`.
"""

from collections import defaultdict
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from engine.jobs.history.files import HistoryCommit, hour_of, live
from engine.jobs.history.options import CareOptions, CareReport
from engine.jobs.history.windows import History, hour_text

_NO_HOUR = ""


def care(history: History, options: CareOptions, now_ms: int) -> CareReport:
    """Compact, let go what is too old, clear away. One at a time per history; two harm nothing."""
    compacted = compact(history, now_ms)
    expired = expire(history, now_ms - round(options.keep_s * 1000), now_ms)
    commits, files = clear(history, now_ms - round(options.grace_s * 1000))
    return CareReport(compacted=compacted, expired=expired, commits=commits, files=files)


def compact(history: History, now_ms: int) -> int:
    """Make one file of every hour that has several; say of how many hours."""
    hours: defaultdict[str, list[str]] = defaultdict(list)
    for file in sorted(live(history.files.commits().values())):
        hours[hour_of(file)].append(file)
    several = {hour: files for hour, files in hours.items() if len(files) > 1 and hour != _NO_HOUR}
    for hour, files in several.items():
        made = f"hour={hour}/compacted-{uuid4().hex}.parquet"
        history.files.make_folder(made)
        _merge(history, files, made)
        history.files.commit(_name("compact"), HistoryCommit(at_ms=now_ms, adds=(made,), removes=tuple(files)))
    return len(several)


def _merge(history: History, files: list[str], made: str) -> None:
    """Merge files into one: each stretch is a row group of its own, so that it is read alone again."""
    schema = pa.unify_schemas([history.schema(file) for file in files], promote_options="permissive")
    with (
        history.files.filesystem.open_output_stream(history.files.path(made)) as stream,
        pq.ParquetWriter(stream, schema, compression="zstd") as writer,
    ):
        for _, table in history.stretches(files):
            writer.write_table(table.cast(schema))


def expire(history: History, before_ms: int, now_ms: int) -> int:
    """Have whole hours before an instant count no longer; say how many files that are."""
    last = hour_text(before_ms)
    old = tuple(sorted(file for file in live(history.files.commits().values()) if hour_of(file) < last))
    if old:
        history.files.commit(_name("expire"), HistoryCommit(at_ms=now_ms, removes=old))
    return len(old)


def clear(history: History, before_ms: int) -> tuple[int, int]:
    """Remove commits and files that counted no longer at an instant; say how many of each.

    A commit that took files away stays until the commits that had added them are gone.
    """
    commits = history.files.commits()
    gone = {file for commit in commits.values() if commit.at_ms < before_ms for file in commit.removes}
    dead = [name for name, one in commits.items() if one.adds and one.at_ms < before_ms and gone.issuperset(one.adds)]
    takers = [name for name, one in commits.items() if not one.adds and one.at_ms < before_ms]
    there = {file for one in commits.values() for file in one.adds}
    dropped = 0
    for name in [*dead, *takers]:
        if there.isdisjoint(commits[name].removes):
            history.files.drop_commit(name)
            dropped += 1
        elif commits[name].adds:
            kept = msgspec.structs.replace(commits[name], adds=())
            history.files.commit(name, kept)  # it has nothing any more, and still takes away
    return dropped, _clear_files(history, before_ms)


def _clear_files(history: History, before_ms: int) -> int:
    """Remove files that no commit names: whole folders of batches, which have Spark's own files too."""
    counted = {file for one in history.files.commits().values() for file in one.adds}
    listed = history.files.listed()
    old = [file for file, at_ms in listed.items() if at_ms < before_ms and file not in counted]
    in_use = {_top(file) for file in counted}
    for folder, at_ms in history.files.attempts().items():
        if at_ms < before_ms and folder not in in_use:
            history.files.drop_attempt(folder)
    for file in old:
        history.files.drop_file(file)
    return len(old)


def _top(file: str) -> str:
    return file.partition("/")[0]


def _name(what: str) -> str:
    return f"{what}-{uuid4().hex}"
