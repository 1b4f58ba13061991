#!/usr/bin/env bash
# bench/train.sh [--model tiny|small|gpt2]... [--rounds N] [--steps N] [--python PROGRAM] [--only PATTERN] [--peer 'NAME=COMMAND']...
# flowc's program beside PyTorch (bench/torch_gpt.py, where PROGRAM, default python3, has it) on the cpu of this machine: one
# rank of one thread, two ranks of one thread each, f32 and bf16. In each round every trainer runs once, so that they meet
# the same machine; from each run the median of its steps but the first two. Printed: medians of the rounds in tokens/s, ratios
# with their least and largest over the rounds, and the machine's own ceilings. A peer's COMMAND gets MODEL, BLOCKS, WIDTH,
# HEADS, LENGTH, VOCABULARY, BATCH and STEPS from the environment and prints `N tok/s`. --only: trainers whose name matches.
set -eu
cd "$(dirname "$0")/.."
models=() rounds=5 steps=8 python=python3 peers=() only=
. bench/common.sh
options 2,3 "model rounds steps python only peer" "$@"
[ ${#models[@]} -gt 0 ] || models=(tiny small gpt2)
cores=$(nproc)
built flowc
work=$build/bench
rm -rf "$work"
mkdir -p "$work"
export OMP_NUM_THREADS=1 OMP_PROC_BIND=true OMP_PLACES=cores
torch=$("$python" -c 'import torch; print(torch.__version__)' 2>/dev/null || true)
compiles=$("$python" -c 'import torch; print(int(hasattr(torch, "compile")))' 2>/dev/null || true)
echo "flowc, PyTorch ${torch:-none}, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $cores cores"
blas=$(pkg-config --cflags --libs openblas 2>/dev/null) && blas="-DOPENBLAS $blas" || blas=
mpicc -O2 -o "$work/ceilings" bench/ceilings.c $blas

# seconds NAME ROUND FILE: the run's median without its first two steps goes to NAME's list
seconds() {
    tail -n +3 "$3" | sort -g | awk '{ x[NR] = $1 } END { print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2 }' >>"$work/$1"
}
# flow NAME RANKS PLAN: one run of flowc's program
flow() {
    mpirun --bind-to core -n "$2" "$work/$3/run" --data "$work/tokens.bin" --steps "$steps" --metrics "$work/m.jsonl" --quiet 2>"$work/said" || { cat "$work/said"; exit 1; }
    sed -n 's/.*"step_s": *\([0-9.e+-]*\).*/\1/p' "$work/m.jsonl" >"$work/s"
    seconds "$1" "$round" "$work/s"
}
# torch NAME RANKS ARGS..
torch() {
    local name=$1 ranks=$2
    shift 2
    rm -f "$work/meet" "$work/s"
    MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=4294967296 mpirun --bind-to core -n "$ranks" "$python" bench/torch_gpt.py \
        --blocks $L --width $D --heads $H --length $T --vocabulary $V --batch $B --steps "$steps" --skip 0 --threads 1 \
        --meet "$work/meet" --times "$work/s" "$@" >"$work/said" 2>&1 || { cat "$work/said"; exit 1; }
    seconds "$name" "$round" "$work/s"
}
# ratio A B RANKS_A RANKS_B: tokens/s of A by those of B
ratio() {
    [ -s "$work/$1" ] && [ -s "$work/$2" ] || return 0
    paste "$work/$1" "$work/$2" | awk -v a="$1" -v b="$2" -v n="$3" -v m="$4" '
        { r[NR] = ($2 / m) / ($1 / n) }
        END {
            for (i = 1; i <= NR; i++) for (j = i + 1; j <= NR; j++) if (r[j] < r[i]) { t = r[i]; r[i] = r[j]; r[j] = t }
            printf "    %-28s %5.2f x  (%.2f to %.2f)\n", a " / " b, NR % 2 ? r[(NR + 1) / 2] : (r[NR / 2] + r[NR / 2 + 1]) / 2, r[1], r[NR]
        }'
}

for model in "${models[@]}"; do
    size "$model"
    B=4
    export MODEL=$model BLOCKS=$L WIDTH=$D HEADS=$H LENGTH=$T VOCABULARY=$V BATCH=$B STEPS=$steps
    echo "$model: $L blocks, width $D, $H heads, $T tokens, vocabulary $V, $B sequences per rank"
    mpirun --bind-to core -n 1 "$work/ceilings" $T $D $((4 * D)) $V $B $H
    mpirun --bind-to core -n 2 "$work/ceilings" $T $D $((4 * D)) $V $B $H
    example 1 >"$work/gpt.flow"
    tokens $V >"$work/tokens.bin"
    compiled() { [ -x "$work/$1/run" ] || {
        "$build/flowc" "$work/gpt.flow" --plan "$1" --target cpu --no-verify -o "$work/$1" --set L=$L --set D=$D --set H=$H --set T=$T \
            --set V=$V --set N=$2 --set M="${3:-1}" --set steps="$steps" --set warmup=1 2>"$work/said" || { cat "$work/said"; exit 1; }
        make -s -C "$work/$1" -j "$cores" ${runtime:+RUNTIME="$runtime"} >"$work/said" 2>&1 || { cat "$work/said"; exit 1; }; }; }
    trainers=()
    want() { [ -z "$only" ] || [[ $1 =~ $only ]]; }
    add() { want "$1" && trainers+=("$1") || true; }
    add flowc; add flowc_bf16; add flowc_dp2; add flowc_bf16_dp2; add flowc_tp2; add flowc_pp2
    if [ -n "$torch" ]; then
        add eager; add eager_bf16; add ddp2; add ddp2_bf16
        [ "$compiles" = 1 ] && { add compiled; add compiled_bf16; }
    fi
    for round in $(seq "$rounds"); do
        for t in ${trainers[@]+"${trainers[@]}"}; do
            case $t in
            flowc) compiled single $B && flow $t 1 single ;;
            flowc_bf16) compiled bench_bf16 $B && flow $t 1 bench_bf16 ;;
            flowc_dp2) compiled dp2 $((2 * B)) && flow $t 2 dp2 ;;
            flowc_bf16_dp2) compiled bf16 $((2 * B)) && flow $t 2 bf16 ;;
            flowc_tp2) compiled tp2 $((2 * B)) && flow $t 2 tp2 ;;
            flowc_pp2) compiled pp2 16 16 && flow $t 2 pp2 ;;
            eager) torch $t 1 ;;
            eager_bf16) torch $t 1 --bf16 ;;
            compiled) torch $t 1 --compile ;;
            compiled_bf16) torch $t 1 --compile --bf16 ;;
            ddp2) torch $t 2 ;;
            ddp2_bf16) torch $t 2 --bf16 ;;
            esac
        done
        for p in ${peers[@]+"${peers[@]}"}; do
            bash -c "${p#*=}" | sed -n 's/.*[^0-9.]\([0-9.]*\) tok\/s.*/\1/p' | tail -n 1 |
                awk -v n=$((B * T)) '$1 > 0 { print n / $1 }' >>"$work/${p%%=*}"
        done
    done
    for t in ${trainers[@]+"${trainers[@]}"} ${peers[@]+"${peers[@]%%=*}"}; do
        case $t in *pp2) n=$((16 * T)) ;; *dp2* | *tp2) n=$((2 * B * T)) ;; *) n=$((B * T)) ;; esac
        [ ! -s "$work/$t" ] || sort -g "$work/$t" | awk -v t="$t" -v n=$n '{ x[NR] = $1 }
            END { s = NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2; printf "    %-28s %9.0f tok/s\n", t, n / s }'
    done
    one=$B two=$((2 * B))
    ratio flowc eager $one $one
    ratio flowc compiled $one $one
    ratio flowc_bf16 eager_bf16 $one $one
    ratio flowc_bf16 compiled_bf16 $one $one
    ratio flowc_dp2 ddp2 $two $two
    ratio flowc_bf16_dp2 ddp2_bf16 $two $two
    ratio flowc_dp2 flowc $two $one
    ratio flowc_tp2 flowc $two $one
    ratio flowc_pp2 flowc 16 $one
    for p in ${peers[@]+"${peers[@]%%=*}"}; do ratio flowc "$p" $one $one; done
    for t in ${trainers[@]+"${trainers[@]}"} ${peers[@]+"${peers[@]%%=*}"}; do rm -f "$work/$t"; done
    rm -rf "$work"/single "$work"/bench_bf16 "$work"/dp2 "$work"/bf16 "$work"/tp2 "$work"/pp2
done
rm -rf "$work"
