#!/usr/bin/env bash
# prefetch.sh FLOWC WORK PROGRAM: with `prefetch 1` each gather of a block's parameters starts while the block before it
# runs, forward and backward, into a second copy that memory counts; each reduction of a block's gradients ends in the block
# after it, or behind the last; and a training run gives the same bits.
set -eu
flowc=$1 work=$2 program=$3
. "$(cd "$(dirname "$0")/../.." && pwd)/scripts/mpi-env.sh"
rm -rf "$work"
mkdir -p "$work"
cd "$work"
sed '/^plan zero3 {/,/^}/s/shard parameters over dp/&; prefetch 1/' "$program" > ahead.flow
cp "$program" plain.flow
sed '/^plan zero3 {/,/^}/s/shard parameters over dp/shard gradients over dp; prefetch 1/' "$program" > grads.flow
awk 'BEGIN { for (i = 0; i < 20000; i++) printf "%c%c", 65 + i * i % 61, 0 }' > input.bin
sizes="--set V=256 --set T=16 --set D=32 --set H=4 --set L=3 --set N=8 --set M=2"
for p in plain ahead grads; do
    "$flowc" $p.flow --plan zero3 $sizes --target cpu --emit=memory |
        awk '/bytes per rank/ { print $3 } / communication  / { print $2 }' | head -2 > $p.bytes
    "$flowc" $p.flow --plan zero3 $sizes --target cpu -o $p
    make -s -C $p -j2 ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
    OMP_NUM_THREADS=1 mpirun -n 4 --oversubscribe $p/run --data input.bin --steps 4 --export $p.safetensors --quiet
done
cmp plain.safetensors ahead.safetensors
cmp plain.safetensors grads.safetensors                    # ZeRO-2
start=$(grep -c 'fl_gather_start' ahead/class_0.c) wait=$(grep -c 'fl_gather_wait' ahead/class_0.c)
[ "$wait" -gt 0 ] && [ "$start" = $((2 * wait)) ] || { echo "$start gathers are started for $wait"; exit 1; }
if grep -q 'fl_gather_start' plain/*.c; then echo "gathers ahead without the line"; exit 1; fi
for p in ahead grads; do
    late=$(grep -A3 'const int block1' $p/class_0.c | grep -c 'fl_await')
    [ "$late" -ge 2 ] && [ $((late % 2)) = 0 ] || { echo "$p: $late reductions end in the next block"; exit 1; }
done
if grep -q 'const int block1' plain/*.c; then echo "reductions end late without the line"; exit 1; fi
[ "$(sed -n 2p ahead.bytes)" -gt "$(sed -n 2p plain.bytes)" ] || { echo "memory does not count the second copies"; exit 1; }
