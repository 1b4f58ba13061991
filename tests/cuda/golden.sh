#!/usr/bin/env bash
# golden.sh FLOWC COMPARE BUILD GOLDEN WORK PLAN STEPS SEED [--set NAME=VALUE]...: compiles the GPT example for cuda,
# builds it with the test double (objects in BUILD), trains and compares with the reference. SANITIZE=1: under ASan. REUSE=1: with
# the program that is in WORK already.
set -eu
flowc=$1 compare=$2 build=$3 golden=$4 work=$5 plan=$6 steps=$7 seed=$8
shift 8
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../scripts/mpi-env.sh"
sizes="--set V=256 --set T=64 --set D=64 --set H=4 --set L=4 --set N=8 --set lr=1e-3 --set floor=1e-4 --set warmup=5 --set steps=20"
[ -f "$golden/sizes" ] && sizes=$(cat "$golden/sizes")
if [ -z "${REUSE:-}" ]; then
    rm -rf "$work"
    mkdir -p "$work"
    "$flowc" "${GPT_FLOW:-$here/../../examples/gpt/gpt.flow}" --plan "$plan" $sizes "$@" -o "$work/out" --target cuda
    make -s -f "$here/double/double.mk" PROGRAM="$work/out" BUILD="$build" SANITIZE="${SANITIZE:-}"
fi
ranks=$(sed -n 's/^RANKS := //p' "$work/out/Makefile")
export FL_DOUBLE_SEED=$seed ASAN_OPTIONS=detect_leaks=0
rm -f "$work/m.jsonl" "$work/f.safetensors"
weights=
[ "$steps" = 20 ] && weights="$golden/final.safetensors $work/f.safetensors"
mpirun -n "$ranks" --oversubscribe "$work/out/run.double" --load "$golden/init.safetensors" --data "$golden/tokens.bin" \
    --steps "$steps" --metrics "$work/m.jsonl" --export "$work/f.safetensors" --quiet
rounded=
[ "$plan" = bf16 ] && rounded=--rounded
"$compare" $rounded --steps "$steps" "$golden/run.json" "$work/m.jsonl" $weights
[ -n "${KEEP:-}" ] || rm -rf "$work"
