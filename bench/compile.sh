#!/bin/bash
# compile.sh [FLOWC]: seconds of processor time and peak memory of `flowc --check` against blocks, micro-batches and ranks of
# the GPT example, and against blocks that stand one after the other without a repeat; then of `flowc -o` for GPT-3 1T and Llama 3
# 405B at an eighth of their ranks, all of them and eight times as many, with the size of what is written. Each line is one
# compilation.
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

write() { # WHAT ARGS..
    local what=$1
    shift
    rm -rf "$work/dir"
    /usr/bin/env time -f '%U %S %M' "$flowc" "$@" --no-verify -o "$work/dir" 2>"$work/said" >"$work/out" || { cat "$work/said"; exit 1; }
    tail -n 1 "$work/said" | awk -v w="$what" -v size="$(du -sk --apparent-size "$work/dir" | cut -f 1)" -v files="$(find "$work/dir" -type f | wc -l)" \
        '{ printf "%-32s %6.2f s (%.2f of them system) %7.1f MiB, writes %7.1f MiB in %d files\n", w, $1 + $2, $2, $3 / 1024, size / 1024, files }'
}
large() { # WHAT FILE PLAN MESH N M: memory is no matter here
    sed "s/^    mesh m = \[pp.*/    mesh m = [$4]/; /^ *memory/d" "$2" >"$work/large.flow"
    write "$1" "$work/large.flow" --plan "$3" --set N="$5" --set M="$6"
}
gpt3=examples/gpt/gpt3-1t.flow llama=examples/llama/llama3-405b.flow
large "GPT-3 1T, 384 ranks" $gpt3 pp64_dp6_tp8 'pp: 8, dp: 6, tp: 8' 3072 512
large "GPT-3 1T, 3072 ranks" $gpt3 pp64_dp6_tp8 'pp: 64, dp: 6, tp: 8' 3072 512
large "GPT-3 1T, 24576 ranks" $gpt3 pp64_dp6_tp8 'pp: 64, dp: 48, tp: 8' 6144 128
large "Llama 3 405B, 1024 ranks" $llama pp16_dp64_tp8 'pp: 16, dp: 8, tp: 8' 1024 16
large "Llama 3 405B, 8192 ranks" $llama pp16_dp64_tp8 'pp: 16, dp: 64, tp: 8' 1024 16
large "Llama 3 405B, 65536 ranks" $llama pp16_dp64_tp8 'pp: 16, dp: 512, tp: 8' 4096 8
