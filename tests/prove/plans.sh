#!/bin/sh
# plans.sh FLOWC CHECK SCHEDULES.flow GPT.flow DIR: plan.json of every schedule is sound to a checker of its own, and none
# of its mutants is.
flowc=$1 check=$2 dir=$5
rm -rf "$dir"
mkdir -p "$dir" || exit 1
try() { # FLOW PLAN TARGET args..
    flow=$1 plan=$2 target=$3
    shift 3
    "$flowc" "$flow" --plan "$plan" --target "$target" -o "$dir/$plan" "$@" 2>"$dir/log" || { cat "$dir/log"; exit 1; }
    "$check" "$dir/$plan/plan.json" --mutants >"$dir/log" || { echo "$plan, $target:"; cat "$dir/log"; exit 1; }
}
for plan in one gpipe one_f_one_b split_w interleaved zb_h1 zb_h2 zb_v few_v dp_h1 dp_v_zero; do
    try "$3" "$plan" cpu
done
try "$3" zb_v cuda
try "$4" dp2_tp2_pp2 cpu
try "$4" pp4 cuda
