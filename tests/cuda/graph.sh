#!/usr/bin/env bash
# graph.sh FLOWC BUILD GOLDEN WORK PLAN: steps replayed from a captured graph give the bits of steps queued call by call,
# dropout, learning rate and bias correction of each step included.
set -eu
flowc=$1 build=$2 golden=$3 work=$4 plan=$5
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../scripts/mpi-env.sh"
rm -rf "$work"
mkdir -p "$work"
sed 's/^    x = x + mlp:.*/&\n    x = dropout(x, p = 0.2)/' "$here/../../examples/gpt/gpt.flow" >"$work/gpt.flow"
grep -q dropout "$work/gpt.flow"
"$flowc" "$work/gpt.flow" --plan "$plan" --set V=256 --set T=16 --set D=32 --set H=4 --set L=2 --set N=8 --set M=2 --set lr=1e-3 \
    --set floor=1e-4 --set warmup=2 --set steps=6 -o "$work/out" --target cuda
make -s -f "$here/double/double.mk" PROGRAM="$work/out" BUILD="$build"
ranks=$(sed -n 's/^RANKS := //p' "$work/out/Makefile")
export FL_DOUBLE_SEED=1 ASAN_OPTIONS=detect_leaks=0
for how in "" --no-graph; do
    mpirun -n "$ranks" --oversubscribe "$work/out/run.double" --data "$golden/tokens.bin" --steps 5 \
        --metrics "$work/m$how.jsonl" --export "$work/w$how.safetensors" --quiet $how
done
sed 's/"tokens_per_s.*//' "$work/m.jsonl" >"$work/a"
sed 's/"tokens_per_s.*//' "$work/m--no-graph.jsonl" >"$work/b"
[ "$(wc -l <"$work/a")" = 5 ] || { echo "not five steps"; exit 1; }
cmp "$work/a" "$work/b"
cmp "$work/w.safetensors" "$work/w--no-graph.safetensors"
[ -n "${KEEP:-}" ] || rm -rf "$work"
