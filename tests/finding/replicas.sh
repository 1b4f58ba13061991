#!/usr/bin/env bash
# replicas.sh FLOWC WORK HERE [DOUBLE]: P1. What ranks hold alike stays alike over two steps; a gradient or an activation that is
# not reduced (put in with --spoil) is named where it parts, with its line, axis and ranks, once.
set -eu
. "$(dirname "$0")/target.sh"
gpt=$here/../../examples/gpt/gpt.flow
size="--set N=8 --set T=8 --set V=64 --set D=16 --set H=4 --set L=2 --set M=2 --set warmup=2 --set lr=1e-2 --set steps=9"
perl -e 'my $s = 7; print pack("v*", map { $s = ($s * 1103515245 + 12345) & 0x7fffffff; ($s >> 16) % 61 } 1 .. 1000)' >tokens.bin
once() { [ "$(grep -c '^flow: .* is not the same' out)" = 1 ] || { cat out; fail "not one report"; }; }
plans="dp2_tp2_pp2 zero3"
[ -z "$double" ] || plans=tp2_pp2
for plan in $plans; do
    # shellcheck disable=SC2086
    build $plan "$gpt" --plan $plan $size
    run $plan --data tokens.bin --steps 2 --check-replicas
    rm -rf $plan
done
# shellcheck disable=SC2086
build gradient "$gpt" --plan dp2_tp2 $size --no-verify --spoil 'drop all_reduce(dp) h[*].mlp.down_bias#grad'
refused run gradient --data tokens.bin --steps 3 --check-replicas
said 'step 1: h\[0\].mlp.down_bias#grad.* is not the same along dp, as box_all_reduce makes it at .*gpt.flow:[0-9]*, update, micro-batch 0 of 2: rank [01] holds one, rank [23] another'
once
[ -z "$double" ] || exit 0
# shellcheck disable=SC2086
build activation "$gpt" --plan dp2_tp2 $size --no-verify --spoil 'drop all_reduce(tp) h[*].mlp.einsum@2'
refused run activation --data tokens.bin --steps 3 --check-replicas
said 'step 1: h\[0\].mlp.einsum@2.* is not the same along tp, as box_all_reduce makes it at .*gpt.flow:[0-9]*, forward, micro-batch 0 of 2: rank [02] holds one, rank [13] another'
once
