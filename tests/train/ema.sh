#!/usr/bin/env bash
# ema.sh FLOWC TIED.flow WORK [DOUBLE]: averages of the weights are what the weights of every step say, under every plan the same;
# a resumed run has their bits; evaluation reads them where it is asked to. DOUBLE: objects of the test double; then the cuda
# program has the averages of the cpu one.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
flowc=$1 tied=$2 work=$3 double=${4:-}
. "$here/../program.sh"
awk 'BEGIN { x = 1; for (i = 0; i < 4000; i++) { x = (x * 1103 + 12345) % 65521; printf "%c%c", x % 60 + 1, 0 } }' >tokens.bin
sed 's/^    clip_norm .*/&; ema 0.8/; s/steps 6/steps 4/' "$tied" >ema.flow
cat >>ema.flow <<'FLOW'
evaluate every 4 { data { tokens, targets = next_token("tokens.bin", u16) }; steps 2; weights ema }
plan short { mesh m = [dp: 2]; microbatches 2 over N; sbp tokens, targets = {dp: S(N)}; shard gradients over dp; precision bf16 }
plan host { mesh m = [dp: 2]; microbatches 2 over N; sbp tokens, targets = {dp: S(N)}; shard optimizer over dp
            offload optimizer, parameters to host }
FLOW
held_loss() { sed -n 's/.*"eval_loss": \([-+.e0-9]*\).*/\1/p' "$1" | tail -1; }
same_loss() { # a b TOLERANCE
    awk -v a="$(held_loss "$1")" -v b="$(held_loss "$2")" -v t="$3" 'BEGIN { exit !(a > 0 && b > 0 && (a - b) ^ 2 <= t * t) }' ||
        fail "evaluation: $(held_loss "$1") in $1 and $(held_loss "$2") in $2"
}
near() { perl "$here/near.pl" "$@" >gap 2>&1 || fail "$*: $(cat gap)"; }
build one cpu ema.flow one
for k in 1 2 3 4; do run one --steps $k --export "w$k.st"; done
run one --export one.st --ema --metrics one.jsonl
near average 0.8 w1.st w2.st w3.st w4.st one.st
if [ -n "$double" ]; then
    for plan in zero2_pp2_dp2 short; do
        # in 16 bits what a product takes along is rounded once less: here the parts one after the other, as on the cpu
        if [ $plan = short ]; then export FL_DOUBLE_LT=none; fi
        build cuda cuda ema.flow $plan
        build cpu cpu ema.flow $plan
        for target in cuda cpu; do run $target --export $target.st --ema --metrics $target.jsonl; done
        near 2e-5 cuda.st cpu.st
        same_loss cuda.jsonl cpu.jsonl 1e-4
        rm -rf cuda cpu *.jsonl
    done
    finish
    exit
fi
# what is evaluated is what is exported
sed 's/; ema 0.8//; s/weights ema//; s/lr = 1e-2/lr = 0/' ema.flow >still.flow
build still cpu still.flow one
run still --load one.st --steps 1 --metrics still.jsonl
same_loss one.jsonl still.jsonl 2e-6
run still --load w4.st --steps 1 --metrics last.jsonl
[ "$(held_loss last.jsonl)" != "$(held_loss still.jsonl)" ] || fail "the averages are the weights"
! (run still --steps 1 --export x.st --ema) 2>said || fail "averages of a program that keeps none"
for plan in zero2_pp2_dp2 host short; do
    build $plan cpu ema.flow $plan
    run $plan --export $plan.st --ema --metrics $plan.jsonl
    [ $plan = short ] || near 2e-5 one.st $plan.st
    [ $plan = short ] || same_loss one.jsonl $plan.jsonl 5e-6
done
near 0.06 one.st short.st               # an update of Adam has the size of the rate, whatever the gradient
run zero2_pp2_dp2 --steps 2 --save half
run zero2_pp2_dp2 --resume half --export again.st --ema
cmp zero2_pp2_dp2.st again.st || fail "a resumed run has other averages"
run one --resume half --export across.st --ema
near 2e-5 one.st across.st
finish
