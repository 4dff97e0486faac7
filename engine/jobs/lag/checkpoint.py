"""The checkpoint of the query that makes the history of lag: Spark's own files, looked at without Spark."""

from engine.jobs.runtime.storage_files import open_storage


def has_checkpoint(uri: str) -> bool:
    """Whether a query has kept a place there: it has an id, and knows of a batch."""
    from pyarrow import fs

    files, path = open_storage(uri)
    if not files.get_file_info(f"{path}/metadata").is_file:
        return False
    known = files.get_file_info(fs.FileSelector(f"{path}/offsets", allow_not_found=True))
    return any(one.base_name.isdigit() for one in known)


def drop_checkpoint(uri: str) -> None:
    """Remove what is left of a checkpoint: a part of it would count batches anew under the id that it had."""
    files, path = open_storage(uri)
    try:
        files.delete_dir(path)
    except FileNotFoundError:
        return
