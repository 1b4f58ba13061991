#!/usr/bin/env bash
# outside.sh FLOWC WORK: what --emit=memory says of links and packing beside the arena is what the ranks hold, and where.
set -eu
. "$(dirname "$0")/../../scripts/mpi-env.sh"
flowc=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
cd "$work"
cat >deep.flow <<'END'
dim N = 64, D = 256, L = 2
layer Block(x: f32[N, D]) {
    param w: f32[D, D] = normal(std = 0.1)
    return x + x @ w
}
model M(x: f32[N, D]) {
    repeat L as i { x = h[i]: Block(x) }
    return sum(x * x) / (N*D)
}
plan deep { mesh m = [pp: 2]; microbatches 4 over N; pipeline over pp { split h } }
plan small { mesh m = [pp: 2]; microbatches 4 over N; pipeline over pp { split h }; memory 1234567 KiB per rank }
train { data { x = raw("x.bin", f32) }; steps 1; optimizer sgd { lr = 0.1 } }
END
"$flowc" deep.flow --plan deep --target cpu --emit=memory,json >memory.json
field() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" memory.json | sort -n | tail -1; }
arena=$(field arena_bytes) links=$(field link_bytes)
[ "$links" = $((2 * 2 * 16 * 256 * 4)) ] || { echo "two links of two slots, not $links bytes"; exit 1; }
sed -i "s/1234567/$(((arena + links / 2) / 1024))/" deep.flow             # the arena fits, with the links it does not
"$flowc" deep.flow --plan small --check 2>messages && { echo "links are not held against the limit"; exit 1; }
grep -q 'links and packing' messages || { cat messages; exit 1; }
"$flowc" deep.flow --plan deep --target cpu -o out
make -s -C out ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
head -c 65536 /dev/zero >x.bin
OMP_NUM_THREADS=1 mpirun -n 2 --oversubscribe out/run --steps 1 --metrics m.jsonl --quiet
peak=$(sed -n 's/.*"peak_bytes": \([0-9]*\).*/\1/p' m.jsonl)
[ "$peak" -ge $((arena + links)) ] && [ "$peak" -le $((arena + links + 32768)) ] ||
    { echo "ranks hold $peak bytes; the plan says $arena and $links"; exit 1; }
# What collectives pack in is charged to the communicator that packs, not to the first one, which other ranks may not be in.
cat >grid.flow <<'EOF'
dim N = 64, D = 256, L = 2
layer Block(x: f32[N, D]) {
    param w: f32[D, D] = normal(std = 0.1)
    y = x + x @ w
    return y
}
model M(x: f32[N, D]) {
    x = x / sum(x * x, axis = N)
    repeat L as i { x = h[i]: Block(x) }
    return sum(x * x) / (N*D)
}
plan grid { mesh m = [dp: 2, tp: 2]; sbp x = {dp: S(N), tp: S(D)}; sbp h[*].w = {tp: S(1)}; sbp h[*].y = {dp: S(N), tp: S(D)} }
train { data { x = raw("x.bin", f32) }; steps 1; optimizer sgd { lr = 0.1 } }
EOF
"$flowc" grid.flow --plan grid --target cpu -o grid
grep -q '^    {"tp", 2u' grid/program.c && sed -n '/fl_comm_spec comms/{n;p}' grid/program.c | grep -q '"dp"' || { echo "tp is not the second"; exit 1; }
grep -q 'rooms\[\] = {{0L, 0L}, {262144L, 262144L}, {0L, 0L}}' grid/class_0.c || { grep 'rooms\[\]' grid/class_0.c; exit 1; }
