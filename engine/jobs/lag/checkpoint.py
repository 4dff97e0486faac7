"""Checks and deletes the checkpoint of the lag query: Spark's own files, read without Spark."""

from engine.jobs.runtime.storage_files import open_storage


def has_checkpoint(uri: str) -> bool:
    """Whether the folder has a usable checkpoint: a query id, and at least one batch."""
    from pyarrow import fs

    files, path = open_storage(uri)
    if not files.get_file_info(f"{path}/metadata").is_file:
        return False
    known = files.get_file_info(fs.FileSelector(f"{path}/offsets", allow_not_found=True))
    return any(one.base_name.isdigit() for one in known)


def drop_checkpoint(uri: str) -> None:
    """Delete the rest of a checkpoint: otherwise the query would count batches from 0 again under the old id."""
    files, path = open_storage(uri)
    try:
        files.delete_dir(path)
    except FileNotFoundError:
        return
