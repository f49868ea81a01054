#!/usr/bin/env bash
# soak.sh [MINUTES]: `run` against a growing lake on SeaweedFS through the fault proxy of the tests: a fifth of all requests
# meets a fault, the process is killed every 20 to 60 s. Then the faults stop, and the index must equal the lake. Default: 15
# minutes. Prints its figures; fails if anything was lost, told wrongly, or said in words that no operator could act on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cache="${HIGHWATER_CACHE:-$HOME/.cache/highwater}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$cache/target}"
export HIGHWATER_SOAK_MINUTES="${1:-15}"
work="$(mktemp -d "${TMPDIR:-/tmp}/highwater-soak.XXXXXX")"
cleanup() {
    services/s3/stop.sh "$work" || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

HIGHWATER_TEST_S3_SEAWEED="$(services/s3/start.sh seaweedfs "$work")"
export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=testtest AWS_REGION=us-east-1
export HIGHWATER_TEST_S3_SEAWEED
cargo test --locked --test it -- --ignored --nocapture soak::for_long
