#!/usr/bin/env bash
# dump_odd.sh FLOWC WORK HERE: the logical tensors of a step under plans with uneven parts, a padded vocabulary, repeats in pieces,
# several chunks on a stage and shares: the same as on one rank. Nothing is not finite, and replicas are alike.
set -eu
. "$(dirname "$0")/target.sh"
gpt=$here/../../examples/gpt/gpt.flow golden=$here/../golden
cat "$gpt" "$golden/odd_plans.flow" "$golden/shard_plans.flow" "$golden/mixed_plans.flow" >odd.flow
size="--set V=77 --set T=11 --set D=36 --set H=3 --set L=3 --set N=6 --set warmup=3 --set steps=6"
perl -e 'my $s = 7; print pack("v*", map { $s = ($s * 1103515245 + 12345) & 0x7fffffff; ($s >> 16) % 77 } 1 .. 1000)' >tokens.bin
for plan in single:1 odd_tp2_uneven:2 odd_pieces:2 shard2_vee2_dp2:3; do
    # shellcheck disable=SC2086
    build ${plan%:*} odd.flow --plan ${plan%:*} $size --set M=${plan#*:}
    run ${plan%:*} --data tokens.bin --steps 1 --dump '*' -o ${plan%:*}.st --check-finite --check-replicas
    "$FLOW_DIFF" single.st ${plan%:*}.st >out || { cat out; fail "$plan"; }
    awk '/tensors agree/ { exit $1 < 150 }' out || { cat out; fail "$plan: too few"; }
done
