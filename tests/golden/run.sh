#!/usr/bin/env bash
# run.sh FLOWC COMPARE GOLDEN WORK PLAN RANKS [--set NAME=VALUE]...: compiles the GPT example for one plan, trains it on
# the golden data and compares every step and the final weights with the reference. FL_RUNTIME_LIB: an archive of the
# runtime to link, so that it is not compiled again for every plan.
set -eu
flowc=$1 compare=$2 golden=$3 work=$4 plan=$5 ranks=$6
shift 6
source=$(cd "$(dirname "$0")/../.." && pwd)
. "$source/scripts/mpi-env.sh"
sizes="--set V=256 --set T=64 --set D=64 --set H=4 --set L=4 --set N=8 --set lr=1e-3 --set floor=1e-4 --set warmup=5 --set steps=20"
[ -f "$golden/sizes" ] && sizes=$(cat "$golden/sizes")
rm -rf "$work"
mkdir -p "$work"
"$flowc" "${GPT_FLOW:-$source/examples/gpt/gpt.flow}" --plan "$plan" $sizes "$@" -o "$work/out" --target cpu
make -s -C "$work/out" -j2 ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
export OMP_NUM_THREADS=1
mpirun -n "$ranks" --oversubscribe "$work/out/run" --load "$golden/init.safetensors" --data "$golden/tokens.bin" --steps "${STEPS:-20}" \
    --metrics "$work/m.jsonl" --export "$work/f.safetensors" --quiet
rounded=
[ "$plan" = bf16 ] && rounded=--rounded
"$compare" $rounded "$golden/run.json" "$work/m.jsonl" "$golden/final.safetensors" "$work/f.safetensors"
rm -rf "$work"
