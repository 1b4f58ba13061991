#!/usr/bin/env bash
# figures.sh FLOWC FILE.flow GPT.flow WORK ROW: rows about the figures that flowc prints; nothing is run.
#   T2   the memory of a plan is the same figure each time, wherever and with whatever threads it is computed, and never none
#   K9   every pass says its time; what the passes make of a repeat does not grow with its blocks; blocks one after the
#        other, which no repeat holds, compile too. How long it takes is a matter of bench/compile.sh.
#   I9   which difference of losses is fine is written down (README), and --verify measures it for the program at hand
set -eu
flowc=$1 flow=$2 gpt=$3 work=$4 row=$5
rm -rf "$work"
mkdir -p "$work/elsewhere"
cd "$work"
fail() { echo "$row: $*"; exit 1; }
case $row in
T2)
    for target in cpu cuda; do
        for plan in one_f_one_b zb_h1; do
            OMP_NUM_THREADS=1 "$flowc" "$flow" --plan $plan --target $target --emit=memory >a 2>log
            (cd elsewhere && env -i HOME=/ OMP_NUM_THREADS=8 LANG=C "$flowc" "$flow" --plan $plan --target $target \
                --emit=memory >../b 2>../log)
            cmp a b || fail "$plan, $target: two figures"
            [ "$(grep -c '^stage [0-5]: [1-9][0-9]* bytes per rank' a)" = 6 ] || fail "$plan, $target: a stage has none"
        done
        grep -E '^(stage [0-9]|    (parameters|gradients|optimizer state|saved activations|inputs) )' a | sed 's/: .*//' >figures_$target
    done
    cmp figures_cpu figures_cuda || fail "the targets differ in what is no room of their kernels" ;;
I9)
    for row in "tp2 f32 5e-6 2e-5 1e-9" "dp2_tp2_pp2 f32 5e-6 2e-5 1e-9" "bf16 bf16 1e-2 2e-2 1e-5"; do
        set -- $row
        "$flowc" "$gpt" --plan "$1" --check --verify >out 2>&1 || { cat out; fail "$1 is refused"; }
        sed -n "s/^measured: with results rounded to $2, the loss .* by \([^ ]*\) of .* by \([^ ]*\); .* by \([^ ]*\)$/\1 \2 \3/p" \
            out >measured
        awk -v loss="$3" -v norm="$4" -v least="$5" 'NF == 3 && $1 < loss && $2 > 0 && $2 < norm && $3 > least {good = 1}
            END {exit !good}' measured || { cat out; fail "$1: not measured, or more than is documented"; }
    done ;;
K9)
    for layers in 12 96; do
        "$flowc" "$gpt" --plan dp2_tp2_pp2 --set L=$layers --check --time >out 2>&1 || { cat out; exit 1; }
        for pass in parse elaborate differentiate rewrite place shard box fuse layout schedule allocate prove; do
            grep -q "^$pass  *[0-9.]* ms" out || { cat out; fail "the time of $pass is not printed"; }
        done
        for dump in logical physical memory comm; do
            "$flowc" "$gpt" --plan dp2_tp2_pp2 --set L=$layers --emit=$dump | wc -l
        done >lines$layers
    done
    cmp lines12 lines96 || fail "what is made of 96 blocks is longer than of 12"
    blocks() {
        cat <<FLOW
dim N = 8, D = 8
layer Block(x: f32[N, D]) {
    param w: f32[D, D] = normal(std = 0.4)
    param b: f32[D] = zeros
    return x + tanh(x @ w + b)
}
model Net(x: f32[N, D]) {
$(for i in $(seq $1); do echo "    x = h$i: Block(x)"; done)
    return sum(square(x)) / N
}
plan p { mesh m = [dp: 2, tp: 2]; microbatches 2 over N; sbp x = {dp: S(N)}; sbp h*.w = {tp: S(0)}; shard optimizer over dp }
train { data { x = raw("x.bin", f32) }; steps 4; optimizer adamw { lr = 0.01 }; clip_norm 1.0 }
FLOW
    }
    blocks 40 >many.flow
    "$flowc" many.flow --check >out 2>&1 || { cat out; fail "40 blocks in a row are refused"; } ;;
*) fail "no such row" ;;
esac
rm -rf "$work"
