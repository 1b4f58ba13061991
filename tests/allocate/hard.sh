#!/usr/bin/env bash
# hard.sh FLOWC WORK PROBLEM: within the capacity in the name, or within 0.5 % of the bound; the same bytes every time.
set -eu
. "$(dirname "$0")/check.sh"
flowc=$1 work=$2 problem=$3
rm -rf "$work"
mkdir -p "$work"
cd "$work"
solve "$flowc" "$problem"
capacity=$(basename "$problem" .csv | sed -n 's/.*\.//p')
[ -n "$capacity" ] || capacity=$((bound + bound / 200))
[ "$status" = 0 ] && [ "$height" -le "$capacity" ] || { echo "height $height, capacity $capacity"; exit 1; }
mv out first
solve "$flowc" "$problem"
cmp out first
