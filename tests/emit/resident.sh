#!/usr/bin/env bash
# resident.sh FLOWC PROGRAM WORK: what a rank has resident, less what was so before the arena (MPI, BLAS, libc), is
# within 5 % of the plan's figure.
set -eu
. "$(dirname "$0")/../../scripts/mpi-env.sh"
flowc=$1 program=$2 work=$3
rm -rf "$work"
mkdir -p "$work"
cd "$work"
head -c 20000 /dev/zero >data.bin
set -- --target cpu --set D=768 --set L=4 --set N=4 --set T=64 --set M=2
for plan in single dp2; do
    "$flowc" "$program" --plan $plan "$@" --emit=memory,json >memory.json
    plan_bytes=$(awk '/"(arena|link|packing)_bytes"/ { gsub(/[^0-9]/, ""); sum += $0 } END { printf "%.0f", sum }' memory.json)
    [ "$plan_bytes" -ge $((300 << 20)) ] || { echo "$plan: too small to tell"; exit 1; }
    "$flowc" "$program" --plan $plan "$@" -o out
    make -s -C out ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
    ranks=1
    [ $plan = single ] || ranks=2
    OMP_NUM_THREADS=1 mpirun -n $ranks --oversubscribe out/run --data data.bin --steps 2 --metrics m.jsonl --quiet
    held() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" m.jsonl | tail -1; }
    own=$(($(held resident_bytes) - $(held library_bytes)))
    echo "$plan: plan $plan_bytes, resident $own, library $(held library_bytes)"
    [ $((own * 100)) -ge $((plan_bytes * 95)) ] && [ $((own * 100)) -le $((plan_bytes * 105)) ]
    rm -r out
done
