#!/usr/bin/env bash
# odd.sh FLOWC COMPARE RUN_PLAN WORK PLAN RANKS M: sizes that are multiples of nothing convenient. The reference is made
# here by the float64 interpreter on one rank, then the emitted program runs on the plan's ranks.
set -eu
flowc=$1 compare=$2 run_plan=$3 work=$4 plan=$5 ranks=$6 m=$7
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work/golden"
cat "$here/../../examples/gpt/gpt.flow" "$here/odd_plans.flow" "$here/shard_plans.flow" "$here/mixed_plans.flow" >"$work/odd.flow"
sizes="--set V=77 --set T=11 --set D=36 --set H=3 --set L=3 --set N=6 --set lr=1e-3 --set floor=1e-4 --set warmup=3 --set steps=6"
"$run_plan" "$work/odd.flow" --plan single $sizes --set M=1 --steps 6 --make "$work/golden" >/dev/null
echo "$sizes" >"$work/golden/sizes"
GPT_FLOW="$work/odd.flow" STEPS=6 "$here/run.sh" "$flowc" "$compare" "$work/golden" "$work/run" "$plan" "$ranks" --set M="$m"
rm -rf "$work"
