#!/usr/bin/env bash
# figures.sh FLOWC FILE.flow GPT.flow WORK ROW: rows about the figures that flowc prints; nothing is run.
#   T2   the memory of a plan is the same figure each time, wherever and with whatever threads it is computed, and never none
#   K9   the passes are timed; a repeat of 96 blocks takes no longer than one of 12, and blocks one after the other, which
#        no repeat holds, take at most a little more than twice as long for twice as many
set -eu
flowc=$1 flow=$2 gpt=$3 work=$4 row=$5
rm -rf "$work"
mkdir -p "$work/elsewhere"
cd "$work"
fail() { echo "$row: $*"; exit 1; }
TIMEFORMAT=%U
user() { { time "$@" >out 2>&1; } 2>&1; }           # seconds of processor time
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
        grep '^stage' a >figures_$target
    done
    cmp figures_cpu figures_cuda || fail "the targets differ where nothing of theirs is used" ;;
K9)
    for layers in 12 96; do
        eval "t$layers=$(user "$flowc" "$gpt" --plan dp2_tp2_pp2 --set L=$layers --check --time)"
        for pass in parse elaborate differentiate rewrite place shard box fuse layout schedule allocate prove; do
            grep -q "^$pass  *[0-9.]* ms" out || { cat out; fail "the time of $pass is not printed"; }
        done
    done
    awk "BEGIN { exit !($t96 < 1.5 * $t12 + 0.3) }" || fail "12 blocks take $t12 s, 96 take $t96 s"
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
    blocks 20 >few.flow
    blocks 40 >many.flow
    few=$(user "$flowc" few.flow --check) many=$(user "$flowc" many.flow --check)
    awk "BEGIN { exit !($many < 3 * $few + 0.3) }" || fail "20 blocks in a row take $few s, 40 take $many s" ;;
*) fail "no such row" ;;
esac
rm -rf "$work"
