#!/usr/bin/env bash
# metrics.sh FLOWC WORK: an evaluation reports every metric, also forty of them.
set -eu
. "$(dirname "$0")/../../scripts/mpi-env.sh"
flowc=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
cd "$work"
{
    echo 'dim N = 4, D = 2'
    echo 'model M(x: f32[N, D]) {'
    echo '    param w: f32[D] = ones'
    echo '    y = x * w'
    for i in $(seq 40); do echo "    metric m$i = sum(y * $i) / (N*D)"; done
    echo '    return sum(y * y) / (N*D)'
    echo '}'
    echo 'plan single { mesh m = [dp: 1] }'
    echo 'train { data { x = raw("x.bin", f32) }; steps 1; optimizer sgd { lr = 0.0 } }'
    echo 'evaluate every 1 { data { x = raw("x.bin", f32) }; steps 1 }'
} >many.flow
perl -e 'print pack("f<*", (1) x 64)' >x.bin
"$flowc" many.flow --target cpu -o out
make -s -C out ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
OMP_NUM_THREADS=1 mpirun -n 1 out/run --steps 1 --metrics m.jsonl --quiet
for i in $(seq 40); do
    grep -q "\"eval_m$i\": $i\b" m.jsonl || { cat m.jsonl; echo "m$i is missing or wrong"; exit 1; }
done
