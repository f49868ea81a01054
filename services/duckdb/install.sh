#!/usr/bin/env bash
# install.sh: installs DuckDB, the peer whose answers the document tests are compared with, and prints the Python that has it.
set -euo pipefail

cache="${HIGHWATER_CACHE:-$HOME/.cache/highwater}"
venv="$cache/venv-duckdb"
stamp="$venv/installed-duckdb-2.0.1"
if [[ ! -f "$stamp" ]]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "duckdb==2.0.1" "pyarrow==26.0.1" >&2
    touch "$stamp"
fi
printf '%s\n' "$venv/bin/python"
