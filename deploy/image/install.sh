#!/usr/bin/env bash
# Install raymirror from this clone into an empty folder: `install.sh PREFIX [--extra LOCK]...`.
# What an image holds is what this script leaves behind:
#   PREFIX/venv        CPython 3.11 with every package of requirements.lock (hashes checked), raymirror as a wheel
#   PREFIX/cache       the jars of Kafka and Spark, and of Spark for S3 (sha256 sums checked)
#   PREFIX/share       start-node.sh and its settings, also as PREFIX/venv/bin/start-node.sh
#   PREFIX/profile.sh  to be sourced: PATH and RAYMIRROR_CACHE
# PYTHON names the interpreter, else python3.11 on PATH. Nothing is written outside PREFIX and a temporary folder; the
# clone may be read-only.
set -euo pipefail

clone=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)

say() { echo "install.sh: $*" >&2; }
refuse() { say "$*"; exit 2; }

[[ $# -ge 1 && $1 != -* ]] || refuse "usage: install.sh PREFIX [--extra LOCK]..."
[[ ! -e $1 || -z $(ls -A "$1") ]] || refuse "$1 is not empty"
prefix=$(mkdir -p "$1" && cd "$1" && pwd)
shift
extras=()
while [[ $# -gt 0 ]]; do
    [[ $1 == --extra && -r ${2:-} ]] || refuse "expected --extra and a lock file that can be read, found: $*"
    extras+=("$(readlink -f "$2")")
    shift 2
done

python=${PYTHON:-python3.11}
[[ $("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') == 3.11 ]] || refuse "$python is not CPython 3.11"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pip=("$prefix/venv/bin/python" -m pip --disable-pip-version-check --quiet)

# The lock without what only tests and linters need.
split_lock() {
    awk 'NR == FNR { left_out[$1]; next }
         /^[^ #]/ { split($1, parts, "=="); wanted = !(parts[1] in left_out) }
         wanted' "$clone/deploy/image/dev-only.txt" "$clone/requirements.lock" > "$work/runtime.lock"
    # PySpark comes as source, and its build must use the locked setuptools, not the newest.
    sed -n '/^setuptools==/,/[^\\]$/p' "$work/runtime.lock" > "$work/setuptools.lock"
}

install_packages() {
    "$python" -m venv "$prefix/venv"
    "${pip[@]}" install --require-hashes -r "$work/setuptools.lock"
    "${pip[@]}" install --require-hashes --no-build-isolation --use-pep517 --no-deps -r "$work/runtime.lock"
    for extra in "${extras[@]}"; do
        "${pip[@]}" install --require-hashes --no-deps -r "$extra"
    done
}

install_wheel() {
    mkdir "$work/source"
    # A copy, because setuptools builds inside the tree it is given.
    (cd "$clone" && tar --exclude=__pycache__ --exclude='*.so' -cf - engine actors policies deploy pyproject.toml setup.py README.md LICENSE) | tar -xf - -C "$work/source"
    "${pip[@]}" wheel --no-index --no-build-isolation --no-deps --wheel-dir "$work" "$work/source"
    "${pip[@]}" install --no-index --no-deps "$work"/raymirror-*.whl
    "${pip[@]}" check
}

place_scripts() {
    install -D -m 755 "$clone/deploy/ray/start-node.sh" "$prefix/share/start-node.sh"
    install -D -m 644 "$clone/deploy/ray/node.env" "$prefix/share/node.env"
    ln -s ../../share/start-node.sh "$prefix/venv/bin/start-node.sh"
    printf 'export PATH="%s:$PATH"\nexport RAYMIRROR_CACHE="%s"\n' "$prefix/venv/bin" "$prefix/cache" > "$prefix/profile.sh"
}

say "packages of requirements.lock into $prefix/venv"
split_lock
install_packages
say "raymirror as a wheel"
install_wheel
place_scripts
# shellcheck disable=SC1091 # written a moment ago
source "$prefix/profile.sh"
cd /
say "jars of Kafka and Spark into $prefix/cache"
python -c 'from deploy.local import jars; jars.ensure_jars(jars.say_aloud); jars.ensure_s3_jars(jars.say_aloud)'
raymirror --version >&2 # also says whether the native module was built, which needs a C compiler
say "done; source $prefix/profile.sh"
