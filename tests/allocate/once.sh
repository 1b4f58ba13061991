#!/usr/bin/env bash
# once.sh FLOWC PROGRAM: what is read for the last time where its like is made needs no second place: the gradient of whole logits
# lies over them. And what is counted before the first micro-batch is not counted again in each.
set -eu
flowc=$1 program=$2
bad=0
for target in cpu cuda; do
    for plan in tp2 tp4 sp2 dp2_tp2 tp2_pp2 dp2_tp2_pp2; do
        "$flowc" "$program" --plan $plan --target $target --emit=memory >memory.once
        grep -q ' head$' memory.once || { echo "$plan, $target: no logits"; bad=1; }
        if grep 'head#grad$' memory.once; then echo "$plan, $target: logits and their gradient"; bad=1; fi
    done
done
for plan in single dp2 cp2 pp2 dp2_tp2_pp2; do
    counts=$("$flowc" "$program" --plan $plan --target cpu --emit=physical |
             awk '/^stage/ { train = /train/ } train && / = count\(/ { n++ } END { print n + 0 }')
    [ "$counts" = 1 ] || { echo "$plan: $counts counts of the targets in a step of train"; bad=1; }
done
rm -f memory.once
exit $bad
