#!/usr/bin/env bash
# posts.sh FLOWC WORK PROGRAM: gradients are reduced beside the backward in as many calls as the plan's buckets say, in a text
# whose size depends on neither blocks nor micro-batches, and to the bits of any other way of cutting them, with memory
# that the ranks share and without.
set -eu
flowc=$1 work=$2 program=$3
. "$(cd "$(dirname "$0")/../.." && pwd)/scripts/mpi-env.sh"
rm -rf "$work"
mkdir -p "$work"
cd "$work"
cp "$program" gpt.flow
for plan in "plain::" "small::buckets 8 KiB" "large::buckets 120 KiB" "shares:shard optimizer over dp:" \
    "cut:shard optimizer over dp:buckets 8 KiB" "grads:shard gradients over dp:" "pieces:shard gradients over dp:buckets 8 KiB"; do
    IFS=: read -r name shard buckets <<<"$plan"
    printf 'plan %s {\n    mesh m = [dp: 2]\n    microbatches M over N\n    sbp tokens, targets = {dp: S(N)}\n    %s\n    %s\n}\n' \
        "$name" "$shard" "$buckets" >>gpt.flow
done
awk 'BEGIN { for (i = 0; i < 20000; i++) printf "%c%c", 65 + i * i % 61, 0 }' >input.bin
sizes="--set V=256 --set T=16 --set D=32 --set H=4 --set L=4 --set N=16"
calls() {                                # PLAN L M: "posts of the blocks' gradients: times x KiB, .."
    "$flowc" gpt.flow --plan "$1" $sizes --set L="$2" --set M="$3" --target cpu --emit=schedule |
        sed -n 's/.*posted in backward.* block.* \([0-9]* times [0-9.]* MiB\)$/\1/p' | tr '\n' ','
}
expect() {                               # WHAT GOT WANTED
    [ "$2" = "$3" ] || { echo "$1: $2, not $3"; exit 1; }
}
expect "one call a block" "$(calls plain 4 2)" "4 times 0.048 MiB,"
expect "one call for two blocks" "$(calls large 4 2)" "2 times 0.097 MiB,"
expect "the last call is for what is left" "$(calls large 5 2)" "3 times 0.097 MiB,"
[ "$(calls small 4 2 | tr -cd , | wc -c)" -ge 4 ] || { echo "a block is not cut: $(calls small 4 2)"; exit 1; }
for m in 1 4; do
    for p in plain small large shares cut grads pieces; do
        "$flowc" gpt.flow --plan $p $sizes --set M=$m --target cpu --verify -o $p 2>/dev/null
    done
    lines=$(wc -l <large/class_0.c)
    "$flowc" gpt.flow --plan large $sizes --set L=8 --set M=$m --target cpu -o more
    expect "lines of a text with more blocks" "$(wc -l <more/class_0.c)" "$lines"
    for p in plain small large shares cut grads pieces; do
        make -s -C $p -j2 ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
        OMP_NUM_THREADS=1 mpirun -n 2 --oversubscribe $p/run --data input.bin --steps 3 --export $p.safetensors --quiet
    done
    OMP_NUM_THREADS=1 mpirun -n 2 --oversubscribe -x FL_SHARED=0 small/run --data input.bin --steps 3 --export apart.safetensors --quiet
    for p in small large apart; do cmp plain.safetensors $p.safetensors; done
    cmp shares.safetensors cut.safetensors
    cmp grads.safetensors pieces.safetensors
done
"$flowc" gpt.flow --plan large $sizes --set M=4 --target cpu -o four
"$flowc" gpt.flow --plan large $sizes --set M=8 --target cpu -o eight
expect "lines of a text with more micro-batches" "$(wc -l <eight/class_0.c)" "$(wc -l <four/class_0.c)"
