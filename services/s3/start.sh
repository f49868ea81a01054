#!/usr/bin/env bash
# start.sh KIND DIR [--again]: starts an S3 server (moto or seaweedfs) on free ports of 127.0.0.1 with a fresh data folder
# below DIR, makes the bucket `hw-test`, and writes DIR/pid, DIR/ports and DIR/endpoint. Credentials: test / testtest. Stop
# it with stop.sh. --again: on the ports and with the data of the server that ran in DIR before, however that ended.
set -euo pipefail

kind="${1:?moto or seaweedfs}"
dir="${2:?a folder for data, log, pid and endpoint}"
again="${3:-}"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
venv="$("$here/install.sh")"
mkdir -p "$dir"
dir="$(cd "$dir" && pwd)"
if [[ -f "$dir/pid" ]]; then
    "$here/stop.sh" "$dir"
fi

# SeaweedFS serves gRPC on each port + 10000, so a port counts as free only when both are.
free_ports() {
    "$venv/bin/python" - "$1" <<'PYTHON'
import random
import socket
import sys

found = []
held = []
while len(found) < int(sys.argv[1]):
    port = random.randrange(20000, 32000)
    pair = [socket.socket(), socket.socket()]
    try:
        pair[0].bind(("127.0.0.1", port))
        pair[1].bind(("127.0.0.1", port + 10000))
    except OSError:
        continue
    held += pair
    found.append(port)
print(*found)
PYTHON
}

launch() {
    local s3 master filer volume admin
    if [[ "$again" == "--again" ]]; then
        read -r s3 master filer volume admin <"$dir/ports"
    else
        read -r s3 master filer volume admin <<<"$(free_ports 5)"
        printf '%s\n' "$s3 $master $filer $volume $admin" >"$dir/ports"
        rm -rf "$dir/data"
    fi
    endpoint="http://127.0.0.1:$s3"
    case "$kind" in
    moto)
        setsid "$venv/bin/moto_server" -H 127.0.0.1 -p "$s3" >"$dir/server.log" 2>&1 </dev/null &
        ;;
    seaweedfs)
        # The defaults bind every interface and send telemetry: all of these flags matter.
        mkdir -p "$dir/data"
        (cd "$dir" && exec setsid "$venv/bin/weed" mini -dir="$dir/data" -ip=127.0.0.1 -ip.bind=127.0.0.1 \
            -master.telemetry=false -admin.ui=false -webdav=false \
            -s3.port="$s3" -s3.port.iceberg=0 -s3.port.lance=0 \
            -master.port="$master" -filer.port="$filer" -volume.port="$volume" -admin.port="$admin" \
            -s3.config="$here/identities.json") >"$dir/server.log" 2>&1 </dev/null &
        ;;
    *)
        echo "unknown server \`$kind\`: moto or seaweedfs" >&2
        exit 2
        ;;
    esac
    pid=$!
    printf '%s\n' "$pid" >"$dir/pid"
}

# A port can be taken between the look and the bind: then the server dies and the next try gets others.
for try in 1 2 3; do
    launch
    if "$venv/bin/python" "$here/ready.py" "$endpoint" hw-test "$pid"; then
        printf '%s\n' "$endpoint" >"$dir/endpoint"
        printf '%s\n' "$endpoint"
        exit 0
    fi
    "$here/stop.sh" "$dir"
    echo "$kind did not start (try $try), see $dir/server.log" >&2
done
exit 1
