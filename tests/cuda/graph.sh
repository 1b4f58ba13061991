#!/usr/bin/env bash
# graph.sh FLOWC DOUBLE GOLDEN WORK PLAN: steps replayed from a captured graph give the bits of steps queued call by call,
# dropout, learning rate and bias correction of each step included.
set -eu
flowc=$1 double=$2 golden=$3 work=$4 plan=$5
. "$(dirname "$0")/../program.sh"
sed 's/^    x = x + mlp:.*/&\n    x = dropout(x, p = 0.2)/' "$tests/../examples/gpt/gpt.flow" >gpt.flow
grep -q dropout gpt.flow
build out cuda gpt.flow "$plan" --set V=256 --set T=16 --set D=32 --set H=4 --set L=2 --set N=8 --set M=2 --set lr=1e-3 \
    --set floor=1e-4 --set warmup=2 --set steps=6
for how in "" --no-graph; do
    run out --data "$golden/tokens.bin" --steps 5 --metrics "m$how.jsonl" --export "w$how.safetensors" $how
    sed 's/"tokens_per_s.*//' "m$how.jsonl" >"numbers$how"
done
[ "$(wc -l <numbers)" = 5 ] || fail "not five steps"
cmp numbers numbers--no-graph || fail "other numbers"
cmp w.safetensors w--no-graph.safetensors || fail "other weights"
finish
