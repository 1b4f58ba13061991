#!/usr/bin/env bash
# lost_wait.sh FLOWC COMPARE BUILD GOLDEN WORK: streams of an emitted program are tied by what its text says, and the double
# sees when a tie is missing: the program of dp2 as it is gives the golden numbers, and with any of the faults below it
# does not, under some order of streams.
set -u
flowc=$1 compare=$2 build=$3 golden=$4 work=$5
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../scripts/mpi-env.sh"
rm -rf "$work"
mkdir -p "$work"
"$flowc" "$here/../../examples/gpt/gpt.flow" --plan dp2 $(cat "$golden/sizes") --set M=2 -o "$work/out" --target cuda || exit 1
cp "$work/out/class_0.cu" "$work/good.cu"
right() {                                # SEED: does it give the golden numbers?
    FL_DOUBLE_SEED=$1 FL_DOUBLE_TIMEOUT=5 timeout 100 mpirun -n 2 --oversubscribe "$work/out/run.double" --no-graph \
        --load "$golden/init.safetensors" --data "$golden/tokens.bin" --steps 2 --metrics "$work/m.jsonl" --quiet \
        >"$work/said" 2>&1 && "$compare" --steps 2 "$golden/run.json" "$work/m.jsonl" >>"$work/said" 2>&1
}
try() {                                  # NAME SED: with this fault some seed must fail
    sed "$2" "$work/good.cu" >"$work/out/class_0.cu"
    cmp -s "$work/good.cu" "$work/out/class_0.cu" && { echo "$1: the text has nothing to take out"; exit 1; }
    make -s -f "$here/double/double.mk" PROGRAM="$work/out" BUILD="$build" || exit 1
    for seed in 1 2 3 4; do
        right $seed && continue
        [ $? != 124 ] || { echo "$1: seed $seed ran out of time"; exit 1; }
        echo "$1: found with seed $seed"
        return
    done
    echo "$1: not found"
    exit 1
}
make -s -f "$here/double/double.mk" PROGRAM="$work/out" BUILD="$build" || exit 1
for seed in 1 2 3 4; do
    right $seed || { cat "$work/said"; echo "the program as it is fails with seed $seed"; exit 1; }
done
try "no wait for what was posted" '/fl_await(/d'
try "posts of every micro-batch" 's/if (mb == 1) {/{/'
rm -rf "$work"
