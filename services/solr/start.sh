#!/usr/bin/env bash
# start.sh DIR [NODES] [--again] [--beside OTHER]: starts SolrCloud (one JVM: ZooKeeper and NODES Solr nodes, 1 if not said) on
# free ports of 127.0.0.1 with a fresh data folder below DIR. Writes DIR/pid, DIR/ports (ZooKeeper's, then each node's) and
# DIR/endpoint (the nodes' URLs, comma between) and prints that. Stop it with stop.sh. --again: on the ports and with the data
# of the server that ran in DIR before, however that ended. --beside: no ZooKeeper of its own; its nodes, in a process that
# can die alone, join the cloud of the server that runs in OTHER.
set -euo pipefail

dir="${1:?a folder for data, log, pid and endpoint}"
nodes=1
again=
beside=
shift
while (($# > 0)); do
    case "$1" in
    --again) again=yes ;;
    --beside)
        beside="${2:?the folder of the server to join}"
        shift
        ;;
    *) nodes="$1" ;;
    esac
    shift
done
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# install.sh itself starts one, to learn which classes are loaded.
home="${HIGHWATER_SOLR_HOME:-$("$here/install.sh")}"
mkdir -p "$dir"
dir="$(cd "$dir" && pwd)"
if [[ -f "$dir/pid" ]]; then
    "$here/stop.sh" "$dir"
fi

free_ports() {
    python3 - "$1" <<'PYTHON'
import random
import socket
import sys

found = []
held = []
while len(found) < int(sys.argv[1]):
    port = random.randrange(20000, 32000)
    one = socket.socket()
    try:
        one.bind(("127.0.0.1", port))
    except OSError:
        continue
    held.append(one)
    found.append(port)
print(*found)
PYTHON
}

launch() {
    if [[ -z "$again" ]]; then
        free_ports "$((nodes + 1))" >"$dir/ports"
        if [[ -n "$beside" ]]; then
            read -r -a ports <"$dir/ports"
            read -r zookeeper _ <"$beside/ports"
            echo "@$zookeeper" "${ports[@]:1}" >"$dir/ports"
        fi
        rm -rf "$dir/data"
    fi
    read -r -a ports <"$dir/ports"
    local options=(-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx1g -Dlog4j2.level=ERROR)
    if [[ -n "${HIGHWATER_SOLR_JAVA:-}" ]]; then
        options+=("$HIGHWATER_SOLR_JAVA")
    elif [[ -f "$home/classes.jsa" ]]; then
        options+=("-XX:SharedArchiveFile=$home/classes.jsa" -Xshare:auto)
    fi
    # What an earlier life said is no sign of this one.
    : >"$dir/server.log"
    setsid java "${options[@]}" -cp "$(cat "$home/classpath")" SolrServer "$dir/data" - "${ports[@]}" \
        >"$dir/server.log" 2>&1 </dev/null &
    pid=$!
    printf '%s\n' "$pid" >"$dir/pid"
}

# Ready when every core serves: before that, queries fail or leave documents out without a word.
ready() {
    for _ in $(seq 1200); do
        grep -q '^READY' "$dir/server.log" && return 0
        kill -0 "$pid" 2>/dev/null || return 1
        sleep 0.1
    done
    return 1
}

# A port can be taken between the look and the bind: then the server dies and the next try gets others.
for try in 1 2 3; do
    launch
    if ready; then
        urls=("${ports[@]:1}")
        urls=("${urls[@]/#/http://127.0.0.1:}")
        urls=("${urls[@]/%//solr}")
        (IFS=,; printf '%s\n' "${urls[*]}") | tee "$dir/endpoint"
        exit 0
    fi
    "$here/stop.sh" "$dir"
    echo "solr did not start (try $try), see $dir/server.log" >&2
done
exit 1
