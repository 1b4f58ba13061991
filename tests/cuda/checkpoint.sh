#!/usr/bin/env bash
# checkpoint.sh FLOWC SAME BUILD WORK: a checkpoint of the cuda target goes on on the cpu target, under another plan, and the
# other way round: the same tensors, and losses of a run that nobody stopped. Within cuda, halves have the bits of the whole.
set -eu
flowc=$1 same=$2 double=$3 work=$4
here=$(cd "$(dirname "$0")" && pwd)
export FL_DOUBLE_SEED=3
. "$here/../program.sh"
perl -e 'my $s = 7; print pack("v*", map { $s = ($s * 1103515245 + 12345) & 0x7fffffff; ($s >> 16) % 61 } 1 .. 1500)' >tokens.bin
sizes="--set N=8 --set T=8 --set V=61 --set D=16 --set H=4 --set L=2 --set M=2 --set warmup=2 --set steps=10 --set lr=1e-2"
for plan in tp2 zero3; do
    for target in cuda cpu; do build ${target}_$plan $target "$here/../../examples/gpt/gpt.flow" $plan $sizes --set N=16; done
done
go() { run "$1_$2" --data tokens.bin "${@:3}"; }         # cuda|cpu PLAN args..
numbers() { sed -n 's/.*"step": *\([0-9]*\),.*"loss": *\([-+.e0-9]*\).*/\1 \2/p' "$1" | awk '$1 > 3'; }
go cuda tp2 --steps 6 --save whole --metrics whole.jsonl
go cuda tp2 --steps 3 --save half
go cuda tp2 --steps 6 --resume half --save half
"$same" whole/step_000006 half/step_000006 || fail "cuda goes on otherwise than it would have"
for pair in cuda:tp2:cpu:zero3 cpu:zero3:cuda:tp2; do
    IFS=: read -r from a to b <<<"$pair"
    rm -rf ck again rest.jsonl
    go "$from" "$a" --steps 3 --save ck
    go "$to" "$b" --steps 3 --resume ck --save again
    "$same" ck/step_000003 again/step_000003 || fail "$pair: other tensors"
    go "$to" "$b" --steps 6 --resume ck --metrics rest.jsonl
    paste <(numbers whole.jsonl) <(numbers rest.jsonl) | awk 'NF != 4 || $1 != $3 || ($2 - $4) ^ 2 > 25e-12 { print; bad = 1 }
        END { exit bad || NR != 3 }' || fail "$pair: other losses"
done
finish
