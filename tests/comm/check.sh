#!/bin/sh
# check.sh FLOWC CHECK_COMM FILE.flow PLAN RULE..: the rules hold of the communication under this plan.
flowc=$1 check=$2 file=$3 plan=$4
shift 4
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
"$flowc" "$file" --plan "$plan" --emit=comm,json >"$out" || exit 1
"$check" "$@" <"$out"
