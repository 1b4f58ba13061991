#!/bin/sh
# count.sh FLOWC FILE PLAN PHASE KIND AXIS TENSOR CALLS [ARGS..]: in a training step of the plan, --emit=comm lists CALLS
# calls of collective KIND over AXIS in PHASE on tensors that match the regular expression TENSOR.
set -u
flowc=$1 file=$2 plan=$3 phase=$4 kind=$5 axis=$6 tensor=$7 calls=$8
shift 8
listing=$("$flowc" "$file" --plan "$plan" --emit=comm "$@") || exit 1
got=$(echo "$listing" | awk -v p="$phase" -v k="$kind" -v a="$axis" -v t="$tensor" '
    $2 == "train" && $3 == p && $4 == k && $5 == a && $8 ~ t { sum += $7 } END { print sum + 0 }')
[ "$got" = "$calls" ] && exit 0
echo "$listing"
echo "$plan: $got calls of $kind over $axis in $phase on $tensor, not $calls"
exit 1
