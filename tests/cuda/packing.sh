#!/usr/bin/env bash
# packing.sh FLOWC BUILD WORK: NCCL takes pieces of one size. The room in which uneven parts of one row are packed is counted
# by the plan, and is what the program takes beside its arena: to the byte, but for the partial sums of the norm.
set -eu
flowc=$1 build=$2 work=$3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../scripts/mpi-env.sh"
rm -rf "$work"
mkdir -p "$work"
cd "$work"
cat >pack.flow <<'END'
dim N = 7, D = 1003, E = 2011, F = 5
model Net(x: f32[N, D]) {
    param w: f32[D] = normal(std = 0.1)
    param v: f32[D, F] = normal(std = 0.1)
    param u: f32[E] = normal(std = 0.1)
    y = x * softmax(w, axis = D)
    z = to(y @ v, {tp: S(N) uneven})
    return sum(square(z)) / N + sum(square(softmax(u, axis = E)))
}
plan p { mesh m = [tp: 3]; sbp w = {tp: S(D) uneven}; sbp v = {tp: S(D) uneven}; sbp u = {tp: S(E) uneven} }
train { data { x = raw("x.bin", f32) }; steps 2; optimizer sgd { lr = 0.1 } }
END
"$flowc" pack.flow --emit=memory,json >memory.json
field() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" memory.json | sort -n | tail -1; }
arena=$(field arena_bytes) packing=$(field packing_bytes)
# the gather of u, which comes after the smaller one of w: three pieces of 671 numbers, one more to send, one to take apart
[ "$packing" = $((671 * 4 * 5)) ] || { echo "the plan packs in $packing bytes"; exit 1; }
"$flowc" pack.flow -o out
make -s -f "$here/double/double.mk" PROGRAM="$work/out" BUILD="$build"
head -c $((2 * 7 * 1003 * 4)) /dev/zero >x.bin
export FL_DOUBLE_SEED=1
mpirun -n 3 --oversubscribe out/run.double --steps 2 --metrics m.jsonl --quiet
peak=$(sed -n 's/.*"peak_bytes": \([0-9]*\).*/\1/p' m.jsonl | tail -1)
[ "$peak" -ge $((arena + packing)) ] && [ "$peak" -le $((arena + packing + 256)) ] ||
    { echo "ranks hold $peak bytes; the plan says $arena and $packing"; exit 1; }
rm -rf "$work"
