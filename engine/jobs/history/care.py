"""Maintains a history while others write and read it: compaction, retention, cleanup.

It deletes nothing that a reader may still read: files and commits are deleted `grace_s` after they last counted.
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
    """Compact, expire and clear. One process per history is enough; two at once do no harm."""
    compacted = compact(history, now_ms)
    expired = expire(history, now_ms - round(options.keep_s * 1000), now_ms)
    commits, files = clear(history, now_ms - round(options.grace_s * 1000))
    return CareReport(compacted=compacted, expired=expired, commits=commits, files=files)


def compact(history: History, now_ms: int) -> int:
    """Merge the files of every hour that has several; return the number of such hours."""
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
    """Merge files into one: each stretch becomes a row group, so that it can be read alone."""
    schema = pa.unify_schemas([history.schema(file) for file in files], promote_options="permissive")
    with (
        history.files.filesystem.open_output_stream(history.files.path(made)) as stream,
        pq.ParquetWriter(stream, schema, compression="zstd") as writer,
    ):
        for _, table in history.stretches(files):
            writer.write_table(table.cast(schema))


def expire(history: History, before_ms: int, now_ms: int) -> int:
    """Withdraw the files of whole hours before `before_ms`; return the number of files."""
    last = hour_text(before_ms)
    old = tuple(sorted(file for file in live(history.files.commits().values()) if hour_of(file) < last))
    if old:
        history.files.commit(_name("expire"), HistoryCommit(at_ms=now_ms, removes=old))
    return len(old)


def clear(history: History, before_ms: int) -> tuple[int, int]:
    """Delete commits and files that no longer counted at `before_ms`; return the number of each.

    A commit that withdrew files stays until the commits that had added them are deleted.
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
            history.files.commit(name, kept)  # it adds nothing any more, but still withdraws files
    return dropped, _clear_files(history, before_ms)


def _clear_files(history: History, before_ms: int) -> int:
    """Delete files that no commit names, and whole folders of batches, which hold Spark's own files too."""
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
