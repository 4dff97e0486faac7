"""Fuzzes the readers by coverage, each for its share of the time: python -m tests.fuzz MINUTES [WORD ...]

WORD: only targets whose names contain it. Inputs that fail are kept in `build/fuzz/TARGET`, and are printed. Needs
atheris (`pip install 'raymirror[fuzz]'`); without it nothing is fuzzed, and the exit code says so.
"""

import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz.limits import limited

ROOT = Path(__file__).parents[2]
FOUND = ROOT / "build" / "fuzz"
SKIPPED, USAGE = 3, 2
_MOST_BYTES = 8192
_HANG_S, _MOST_MEMORY_MB = 60, 4096
"""Of the process: the fuzzer itself takes half a kilobyte a run, which is a gigabyte after two million. `limits.py` has
the limits of one input."""
_ONE = "--one"
_INSTRUMENTED = ["engine", "policies", "actors"]


def main(words: Sequence[str]) -> int:
    """Return the exit code: 0 if nothing was found, 1 if an input fails, 2 for wrong arguments, 3 without atheris."""
    if words[:1] == [_ONE]:
        return _fuzz(words[1], words[2:])
    from tests.fuzz.targets import TARGETS  # not at the top: atheris has to see the imports of `_fuzz`

    if not words or not re.fullmatch(r"[0-9]+(\.[0-9]+)?", words[0]):
        return _say("usage: python -m tests.fuzz MINUTES [WORD ...]", USAGE)
    names = [name for name in TARGETS if all(word in name for word in words[1:])]
    if not names:
        return _say(f"no target has {' and '.join(words[1:])} in its name; there are: {', '.join(TARGETS)}", USAGE)
    if find_spec("atheris") is None:
        return _say("NOTHING WAS FUZZED: atheris is not installed; pip install 'raymirror[fuzz]'", SKIPPED)
    seconds = max(1, round(float(words[0]) * 60 / len(names)))
    failed = [name for name in names if not _is_clean(name, TARGETS[name].seeds, seconds)]
    return _say(f"{len(names)} targets, {seconds} s each; found something: {', '.join(failed) or 'none'}", bool(failed))


def _say(text: str, code: int) -> int:
    sys.stderr.write(f"{text}\n")
    return code


def _is_clean(name: str, seeds: Sequence[bytes], seconds: int) -> bool:
    """Fuzz one target in a process of its own, which libFuzzer ends."""
    folder = FOUND / re.sub(r"\W+", "-", name)
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    limits = [f"-max_total_time={seconds}", f"-timeout={_HANG_S}", f"-rss_limit_mb={_MOST_MEMORY_MB}"]
    limits += [f"-max_len={_MOST_BYTES}", f"-artifact_prefix={folder}/", "-print_final_stats=1", str(corpus)]
    _say(f"--- {name}: {seconds} s", 0)
    return (
        subprocess.run([sys.executable, "-m", "tests.fuzz", _ONE, name, *limits], cwd=ROOT, check=False).returncode == 0
    )


def _fuzz(name: str, arguments: Sequence[str]) -> int:
    import atheris

    with atheris.instrument_imports(include=_INSTRUMENTED):
        from tests.fuzz.targets import TARGETS
    target = TARGETS[name]

    def one(data: bytes) -> None:
        with limited(len(data), target.least):
            try:
                target.read(data)
            except target.refusals:
                return

    atheris.Setup([f"fuzz {name}", *arguments], one)
    atheris.Fuzz()  # ends the process
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
