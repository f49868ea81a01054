#!/bin/sh
# Plays a week hour by hour: one batch an hour by a clock that stands where --now puts it, and a proof every tenth hour.
#
#   week.sh [FIRST_DAY]        # 2013-01-02 unless given
#
# HIGHWATER names the binary (target/release/highwater of this checkout unless set).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
highwater=${HIGHWATER:-${CARGO_TARGET_DIR:-$here/../../target}/release/highwater}
first=${1:-2013-01-02}
start=$(date -u -d "$first" +%s)
cd "$here"
hour=0
while [ "$hour" -lt 168 ]; do
  now=$(date -u -d "@$((start + hour * 3600 + 1800))" +%Y-%m-%dT%H:%M:%SZ)
  "$highwater" once --now "$now"
  if [ $((hour % 10)) -eq 9 ]; then
    "$highwater" verify
  fi
  hour=$((hour + 1))
done
