#!/usr/bin/env bash
# muon.sh FLOWC GPT.flow WORK [DOUBLE]: the GPT example trained by Muon is the same on one rank and under data, tensor and pipeline
# parallelism, with shares of the optimizer too, and so are weights and momenta; a momentum that is made orthogonal has singular
# values near 1. DOUBLE: objects of the test double; then the cuda program has the numbers of the cpu one.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
flowc=$1 gpt=$2 work=$3 double=${4:-}
. "$here/../program.sh"
perl -e 'my $s = 7; print pack("v*", map { $s = ($s * 1103515245 + 12345) & 0x7fffffff; ($s >> 16) % 61 } 1 .. 65)' >tokens.bin                  # one batch, again and again
sed 's/optimizer adamw {/optimizer muon { rows = 1 on [h[*].attn.qkv_weight, h[*].mlp.*_weight]; rows = 2 on [h[*].attn.out_weight];/
    s/^    clip_norm clip/&; ema 0.9/' "$gpt" >muon.flow
cat >>muon.flow <<'FLOW'
plan zero2_tp2 { mesh m = [dp: 2, tp: 2]; microbatches M over N; sbp tokens, targets = {dp: S(N)}; shard gradients over dp
                 sbp h[*].attn.qkv_weight, h[*].attn.qkv_bias, h[*].attn.out_weight = {tp: S(H)} }
FLOW
size="--set N=8 --set T=8 --set V=61 --set D=16 --set H=4 --set L=2 --set M=2 --set warmup=2 --set steps=6 --set lr=1e-2"
numbers() { sed -n 's/.*"step": *\([0-9]*\),.*"loss": *\([-+.e0-9]*\), "grad_norm": \([-+.e0-9]*\).*/\1 \2 \3/p' "$1"; }
agree() { # a b: losses and norms of two metrics files
    paste <(numbers "$1") <(numbers "$2") | awk 'NF != 6 || $1 != $4 || ($2 - $5) ^ 2 > 25e-12 || ($3 - $6) ^ 2 > ($3 * 2e-5) ^ 2 { print; bad = 1 }
        END { exit bad || NR != 6 }' || fail "$1 and $2 differ"
}
near() { perl "$here/near.pl" "$@" >gap 2>&1 || fail "$*: $(cat gap)"; }
build single cpu muon.flow single $size
run single --data tokens.bin --save one --metrics one.jsonl --export one.st
awk -v first="$(numbers one.jsonl | head -1 | cut -d' ' -f2)" -v last="$(numbers one.jsonl | tail -1 | cut -d' ' -f2)" \
    'BEGIN { exit !(first > 0 && last < first) }' || fail "nothing is learned: $(numbers one.jsonl)"
plans="dp2 tp2 pp2 zero2_tp2"
[ -z "$double" ] || plans="tp2 zero2_tp2"
for plan in $plans; do
    target=cpu
    [ -z "$double" ] || target=cuda
    build $plan $target muon.flow $plan $size
    run $plan --data tokens.bin --save $plan.ck --metrics $plan.jsonl --export $plan.st
    agree one.jsonl $plan.jsonl
    near 1e-4 one.st $plan.st
done
if [ -z "$double" ]; then
    build zero2_tp2 cpu muon.flow zero2_tp2 $size
    run zero2_tp2 --data tokens.bin --steps 3 --save half
    run zero2_tp2 --data tokens.bin --resume half --export again.st
    cmp zero2_tp2.st again.st || fail "a resumed run has other bits"
fi
finish
