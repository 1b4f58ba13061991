#!/usr/bin/env bash
# cluster.sh FLOWC WORK HERE [DOUBLE]: --check-cluster measures every axis, every rank and the links between neighbours, names a
# rank that is made to look slow, and writes what flowc --cluster reads; a field that flowc does not know is still refused.
set -eu
. "$(dirname "$0")/target.sh"
gpt=$here/../../examples/gpt/gpt.flow
size="--set N=8 --set T=8 --set V=64 --set D=16 --set H=4 --set L=2 --set M=2 --set steps=9"
plan=dp4
[ -z "$double" ] || plan=tp2
# shellcheck disable=SC2086
build some "$gpt" --plan $plan $size
FL_SLOW_RANK=1:100 timeout 100 mpirun -n ${plan: -1} --oversubscribe some/run --check-cluster -o c.json >out 2>&1 || { cat out; exit 1; }
said "^axis ${plan%?}: ${plan: -1} ranks within a host, all_reduce [0-9.e+-]* GB/s, [0-9.e+-]* us"
said '^slow: rank 1 on .*GFLOP/s'
said 'c.json: for flowc --cluster'
awk '/"(from|rank)":/ { n++ } END { exit n != 2 * '${plan: -1}' - 1 }' c.json || { cat c.json; fail "ranks and links"; }
awk -F'[:,]' '/^  "(inside|inside_latency|flops|flops16|stream|call|host)":/ { n++; bad += !($2 > 0) } END { exit bad || n != 7 }' c.json ||
    { cat c.json; fail "numbers"; }
"$flowc" "$gpt" --plan dp2 --plans --cluster c.json >out 2>&1 || { cat out; fail "flowc does not read it"; }
said '^dp2 '
sed 's/"stream"/"steam"/' c.json >wrong.json
refused "$flowc" "$gpt" --plan dp2 --check --cluster wrong.json
said "a cluster has no 'steam'"
echo '{"hosts": 1.5}' >half.json
refused "$flowc" "$gpt" --plan dp2 --check --cluster half.json
said "'hosts' of 'half.json' is not a whole number"
