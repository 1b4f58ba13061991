#!/bin/bash
# compile.sh [FLOWC]: seconds of processor time and peak memory of `flowc --check` against blocks, micro-batches and ranks of
# the GPT example, and against blocks that stand one after the other without a repeat. Each line is one compilation.
set -eu
cd "$(dirname "$0")/.."
flowc=${1:-build/flowc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
check() { # WHAT ARGS..
    local what=$1
    shift
    /usr/bin/env time -f '%U %M' "$flowc" "$@" --check --no-verify 2>"$work/said" >"$work/out" || { cat "$work/said"; exit 1; }
    tail -n 1 "$work/said" | awk -v w="$what" '{ printf "%-44s %8.2f s %8.1f MiB\n", w, $1, $2 / 1024 }'
}
sed /^\ *memory/d examples/gpt/gpt.flow >"$work/gpt.flow"          # whatever it needs
gpt=$work/gpt.flow
for layers in 8 64 512; do check "$layers blocks in a repeat" $gpt --plan dp2_tp2_pp2 --set L=$layers; done
for m in 8 128 2048; do check "$m micro-batches" $gpt --plan dp2_tp2_pp2 --set N=$((4 * m)) --set M=$m; done
for dp in 2 32 512; do
    sed "s/^    mesh m = \[pp: 2, dp: 2, tp: 2\].*/    mesh m = [pp: 2, dp: $dp, tp: 2]/" $gpt >"$work/dp.flow"
    check "$((4 * dp)) ranks" "$work/dp.flow" --plan dp2_tp2_pp2 --set N=$((8 * dp))
done
for count in 20 40 80; do
    {
        echo 'dim N = 8, D = 8'
        echo 'layer Block(x: f32[N, D]) { param w: f32[D, D] = normal(std = 0.4); return x + tanh(x @ w) }'
        echo 'model Net(x: f32[N, D]) {'
        for i in $(seq "$count"); do echo "    x = h$i: Block(x)"; done
        echo '    return sum(square(x)) / N'
        echo '}'
        echo 'plan p { mesh m = [dp: 2, tp: 2]; microbatches 2 over N; sbp x = {dp: S(N)}; sbp h*.w = {tp: S(0)} }'
        echo 'train { data { x = raw("x.bin", f32) }; steps 4; optimizer adamw { lr = 0.01 }; clip_norm 1.0 }'
    } >"$work/row.flow"
    check "$count blocks in a row" "$work/row.flow"
done
