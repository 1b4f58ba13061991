#!/usr/bin/env bash
# chunks.sh FLOWC COMPARE GOLDEN WORK: two chunks on each of two stages against one, on the golden data. Weights and
# losses are the same bit for bit; a checkpoint of the one goes on under the other and under one rank.
set -eu
flowc=$1 compare=$2 golden=$3 work=$4
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../scripts/mpi-env.sh"
rm -rf "$work"
mkdir -p "$work"
cat "$here/../../examples/gpt/gpt.flow" "$here/chunk_plans.flow" >"$work/gpt.flow"
export OMP_NUM_THREADS=1
for plan in pp2 il2 vee2 single; do
    "$flowc" "$work/gpt.flow" --plan "$plan" $(cat "$golden/sizes") --set M=4 -o "$work/$plan" --target cpu
    make -s -C "$work/$plan" -j2 ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
done

# train PLAN RANKS NAME arguments..
train() {
    local plan=$1 ranks=$2 name=$3
    shift 3
    mpirun -n "$ranks" --oversubscribe "$work/$plan/run" --data "$golden/tokens.bin" --quiet --metrics "$work/$name.jsonl" "$@"
}
numbers() {
    sed 's/.*"step": *\([0-9]*\).*"loss": *\([^,}]*\).*"grad_norm": *\([^,}]*\).*/\1 \2 \3/' "$1"
}
load="--load $golden/init.safetensors"

train pp2 2 one $load --steps 20 --export "$work/one.safetensors"
train il2 2 two $load --steps 20 --export "$work/two.safetensors"
cmp <(numbers "$work/one.jsonl") <(numbers "$work/two.jsonl")
train vee2 2 vee $load --steps 20 --export "$work/vee.safetensors"
cmp <(numbers "$work/one.jsonl") <(numbers "$work/vee.jsonl")
cmp "$work/one.safetensors" "$work/vee.safetensors"
[ "$(numbers "$work/two.jsonl" | wc -l)" = 20 ]
cmp "$work/one.safetensors" "$work/two.safetensors"

train il2 2 first $load --steps 10 --save "$work/checkpoint"
train pp2 2 rest --resume "$work/checkpoint" --steps 20 --export "$work/rest.safetensors"
cmp "$work/one.safetensors" "$work/rest.safetensors"
train single 1 alone --resume "$work/checkpoint" --steps 20 --export "$work/alone.safetensors"
cat "$work/first.jsonl" "$work/alone.jsonl" >"$work/all.jsonl"
"$compare" "$golden/run.json" "$work/all.jsonl" "$golden/final.safetensors" "$work/alone.safetensors"
train pp2 2 five $load --steps 5 --save "$work/plain"
train il2 2 back --resume "$work/plain" --steps 20 --export "$work/back.safetensors"
cmp "$work/one.safetensors" "$work/back.safetensors"
rm -rf "$work"
