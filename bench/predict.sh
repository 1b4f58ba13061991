#!/bin/bash
# predict.sh [BUILD] [-- --set NAME=VALUE..]: the step that `flowc --plans --target cpu` predicts for plans of the GPT example,
# beside the measured one: median of the steps after the first, ranks as the plan says, threads as the program chooses.
# PLANS, STEPS and REPEAT (default 1) from the environment. Times here are noisy: leave the machine alone meanwhile.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
[ $# -gt 0 ] && shift
[ "${1:-}" = -- ] && shift
. scripts/mpi-env.sh
plans=${PLANS:-single dp2 tp2 sp2 cp2 pp2}
steps=${STEPS:-4}
work=$build/predict
rm -rf "$work"
mkdir -p "$work"
"$build/flowc" examples/gpt/gpt.flow --plans --target cpu "$@" >"$work/table"
head -c 8000000 /dev/zero >"$work/tokens.bin"
printf '%-14s %6s %12s %12s %8s\n' plan ranks predicted measured ratio
for p in $plans; do
    "$build/flowc" examples/gpt/gpt.flow --plan "$p" --target cpu --no-verify "$@" -o "$work/$p"
    make -s -C "$work/$p" -j "$(nproc)" >"$work/$p.log" 2>&1
    ranks=$(awk -v p="$p" '$1 == p { print $2 }' "$work/table")
    for _ in $(seq "${REPEAT:-1}"); do
        mpirun --bind-to none -n "$ranks" "$work/$p/run" --data "$work/tokens.bin" --steps "$steps" --metrics "$work/$p.jsonl" --quiet
        sed -n 's/.*"step_s": *\([0-9.e+-]*\).*/\1/p' "$work/$p.jsonl" | tail -n +2
    done | sort -g | awk '{ x[NR] = $1 } END { print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2 }' >"$work/$p.median"
    awk -v p="$p" -v m="$(cat "$work/$p.median")" '$1 == p {
        s = $6; if ($7 == "ms") s /= 1000
        printf "%-14s %6d %10.3f s %10.3f s %8.2f\n", p, $2, s, m, s / m }' "$work/table"
done
tail -n 1 "$work/table"
