#!/usr/bin/env bash
# bench/processor.sh [--model tiny|small|gpt2]... [--rounds N] [--steps N] [--python PROGRAM]
# Processor time of one rank of one thread, flowc's program beside PyTorch, f32 and bf16, for machines whose cores other work
# shares: each trainer runs with 2 steps and with N more, and a step's time is the difference divided by N. In turn, ratios with
# their least and largest over the rounds.
set -eu
cd "$(dirname "$0")/.."
models=() rounds=3 steps=6 python=python3
. bench/common.sh
options 2 "model rounds steps python" "$@"
[ ${#models[@]} -gt 0 ] || models=(tiny small)
built flowc
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 OMP_PROC_BIND=true OMP_PLACES=cores
example 1 >"$work/gpt.flow"
# used COMMAND..: seconds of user and system time
used() { /usr/bin/env time -f '%U %S' -o "$work/time" "$@" >"$work/said" 2>&1 || { cat "$work/said"; exit 1; }; awk '{ print $1 + $2 }' "$work/time"; }
run() { # NAME STEPS
    case $1 in
    flowc*) used "$work/$1/run" --data "$work/tokens.bin" --steps "$2" --quiet ;;
    *) MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=4294967296 used "$python" bench/torch_gpt.py --blocks $L --width $D \
        --heads $H --length $T --vocabulary $V --batch 4 --steps "$2" --skip 0 --threads 1 $([ "$1" = eager ] || echo --bf16) ;;
    esac
}
for model in "${models[@]}"; do
    size "$model"
    tokens $V >"$work/tokens.bin"
    for name in flowc flowc_bf16; do
        [ $name = flowc ] && plan=single || plan=bench_bf16
        "$build/flowc" "$work/gpt.flow" --plan $plan --target cpu --no-verify -o "$work/$name" --set L=$L --set D=$D --set H=$H --set T=$T \
            --set V=$V --set N=4 --set M=1 --set warmup=1 2>"$work/said" || { cat "$work/said"; exit 1; }
        make -s -C "$work/$name" ${runtime:+RUNTIME="$runtime"} >"$work/said" 2>&1 || { cat "$work/said"; exit 1; }
    done
    for round in $(seq "$rounds"); do
        for name in flowc eager flowc_bf16 eager_bf16; do
            short=$(run $name 2) long=$(run $name $((2 + steps)))
            echo "$short $long" | awk -v n="$steps" '{ print ($2 - $1) / n, $1 }' >>"$work/$model.$name"
        done
    done
    echo "$model: processor seconds of a step, of a run of 2 steps (medians of $rounds)"
    for name in flowc eager flowc_bf16 eager_bf16; do
        for column in 1 2; do
            cut -d ' ' -f $column "$work/$model.$name" | sort -g | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'
        done | paste -s -d ' ' | awk -v n=$name '{ printf "    %-12s %8.4f %8.2f\n", n, $1, $2 }'
    done
    for type in '' _bf16; do
        paste -d ' ' "$work/$model.flowc$type" "$work/$model.eager$type" | awk '{ print $3 / $1 }' | sort -g |
            awk -v t="flowc$type / eager$type" '{ x[NR] = $1 } END { printf "    %-28s %5.2f x  (%.2f to %.2f)\n", t, x[int((NR + 1) / 2)], x[1], x[NR] }'
    done
    rm -rf "$work"/flowc "$work"/flowc_bf16
done
