"""What a mirror was last told to be, kept beside its supervisor: the point at which a reload is done.

Ray starts a supervisor that has died again with what it was first started with. So a reload writes the whole of the new
specification into Ray's control store, in one put, before anything follows it: whoever begins after that begins with
the new one alone, whoever begins before with the old one alone. The key is the actor's id, which a restart keeps and
another supervisor does not have.
"""

import ray
from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get, _internal_kv_put

PLACE = b"raymirror-reloaded"


def kept_spec() -> bytes | None:
    """Give what this supervisor was last told to be, None where it was never reloaded. Blocks."""
    return _internal_kv_get(_key(), namespace=PLACE) if ray.is_initialized() else None


def keep_spec(spec: bytes) -> None:
    """Keep it: from now on this supervisor begins with it. Blocks; raises what Ray raises where it is not kept."""
    _internal_kv_put(_key(), spec, overwrite=True, namespace=PLACE)


def forget_spec() -> None:
    """Keep it no more: the mirror has ended. Blocks."""
    if ray.is_initialized():
        _internal_kv_del(_key(), namespace=PLACE)


def _key() -> bytes:
    return str(ray.get_runtime_context().get_actor_id()).encode()
