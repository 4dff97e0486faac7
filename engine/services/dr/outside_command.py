"""Calls a command of the operator's in bounded time."""

import asyncio
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

_SAID_BYTES = 500


async def failed_call(
    words: Sequence[str], lines: Iterable[str] = (), *, within_s: float, variables: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Call a command, with lines on its standard input; return what has failed, and why: empty after exit code 0.

    `variables`: of its environment, beside those of this process. After `within_s` seconds it is killed with all its
    processes. Its last words on standard error say why it failed.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, **(variables or {})},
        )
    except OSError as error:
        return {"start": error.strerror or str(error)}
    try:
        async with asyncio.timeout(within_s):
            _, said = await process.communicate("".join(f"{line}\n" for line in lines).encode())
    except TimeoutError:
        return {"end": f"it took more than {within_s:g} s"}
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        text = said[-_SAID_BYTES:].decode(errors="replace").strip()
        return {f"exit code {process.returncode}": text or "it said nothing"}
    return {}
