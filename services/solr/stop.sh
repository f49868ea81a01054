#!/usr/bin/env bash
# stop.sh DIR: stops the server that start.sh started with this DIR, by its pid alone.
set -euo pipefail

dir="${1:?the folder given to start.sh}"
[[ -f "$dir/pid" ]] || exit 0
pid="$(cat "$dir/pid")"
kill "$pid" 2>/dev/null || true
for _ in $(seq 150); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
done
kill -9 "$pid" 2>/dev/null || true
rm -f "$dir/pid" "$dir/endpoint"
