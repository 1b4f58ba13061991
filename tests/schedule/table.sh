#!/bin/sh
# table.sh FLOWC DIR: an order by hand that follows no pattern becomes a table in the text, and runs to the numbers of
# one_f_one_b, to the bit.
flowc=$1
rm -rf "$2"
mkdir -p "$2" || exit 1
here=$(cd "$(dirname "$0")" && pwd)
cd "$2" || exit 1
. "$here/../../scripts/mpi-env.sh"
# What may be done next is drawn by lot among the two stages, with at most two messages under way each way.
awk 'BEGIN {
    m = 512; seed = 7
    while (b0 < m) {
        seed = (seed * 75 + 74) % 65537
        k = int(seed / 7) % 4
        if (k == 0 && f0 < m && f0 - f1 < 2) print "0,F,0," f0++
        if (k == 1 && f1 < f0) print "1,F,0," f1++
        if (k == 2 && b1 < f1 && b1 - b0 < 2) print "1,B,0," b1++
        if (k == 3 && b0 < b1) print "0,B,0," b0++
    }
}' >order.csv
cat >table.flow <<'FLOW'
dim N = 512, D = 4
layer Block(x: f32[N, D]) {
    param w: f32[D, D] = normal(std = 0.3)
    return x + tanh(x @ w)
}
model M(x: f32[N, D]) {
    repeat 2 as i { x = h[i]: Block(x) }
    return sum(x * x) / 512
}
plan plain { mesh m = [pp: 2]; microbatches 512 over N; pipeline over pp { schedule = gpipe; split h } }
plan table { mesh m = [pp: 2]; microbatches 512 over N; pipeline over pp { schedule = file("order.csv"); split h } }
train { data { x = raw("x.bin", f32) }; steps 2; optimizer sgd { lr = 0.01 } }
FLOW
awk 'BEGIN { for (i = 0; i < 4096; i++) printf "%c%c%c%c", 1, 1, 1, 62 }' >x.bin
"$flowc" table.flow --plan table --check --verify 2>log || { cat log; exit 1; }
grep -q '^verified: .*pp 2, 3 micro-batches' log || { cat log; exit 1; }
for plan in plain table; do
    "$flowc" table.flow --plan $plan --target cpu -o $plan 2>log || { cat log; exit 1; }
    make -s -C $plan ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"} >log 2>&1 || { cat log; exit 1; }
    timeout 60 mpirun --oversubscribe -n 2 $plan/run --data x.bin --export $plan.safetensors --quiet >log 2>&1 || { cat log; exit 1; }
done
cmp plain.safetensors table.safetensors || exit 1
grep -q "order\[k\].mb" table/class_1.c || { echo "no table"; exit 1; }
! grep -q "order\[k\].mb" plain/class_1.c || { echo "a table where loops would do"; exit 1; }
