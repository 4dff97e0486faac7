"""Formats the data folder of a broker from what Kafka's StorageTool wrote for an earlier one, without a JVM.

The tool writes two files. `meta.properties` says which broker of which cluster the folder belongs to.
`bootstrap.checkpoint` has the features that a new cluster begins with: those of Kafka's release, the same for every
broker. It is kept beside the jars, and belongs to their lists. The tool takes 0.7 s of CPU time, so it runs once.
"""

import base64
import os
import shutil
import uuid
from pathlib import Path

from deploy.local.jar_list import lists_digest
from deploy.local.jars import cache_folder

_META, _CHECKPOINT = "meta.properties", "bootstrap.checkpoint"


def format_as_before(data_folder: Path, cluster_id: str, node_id: int) -> bool:
    """Format the folder of a broker, or leave a formatted one as it is; False if only the tool can format it."""
    if (data_folder / _META).exists():
        return True
    kept = kept_checkpoint()
    if not kept.exists():
        return False
    data_folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(kept, data_folder / _CHECKPOINT)
    directory_id = new_kafka_id()
    meta = f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\ndirectory.id={directory_id}\n"
    (data_folder / _META).write_text(meta)  # last: it says that the folder is formatted
    return True


def keep_checkpoint(data_folder: Path) -> None:
    """Keep the checkpoint of a folder that the tool has formatted; the cache of an image may be read-only."""
    kept, made = kept_checkpoint(), data_folder / _CHECKPOINT
    if kept.exists() or not made.exists() or not os.access(kept.parent, os.W_OK):
        return
    part = kept.with_suffix(f".{os.getpid()}.part")
    shutil.copyfile(made, part)
    part.rename(kept)


def kept_checkpoint() -> Path:
    """The file where the checkpoint of these jars is kept."""
    return cache_folder() / f"bootstrap-{lists_digest()}.checkpoint"


def new_kafka_id() -> str:
    """A random id of Kafka's form: 16 bytes in URL-safe base64 that does not start with a dash (as Kafka's Uuid)."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
