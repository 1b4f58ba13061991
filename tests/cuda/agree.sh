#!/usr/bin/env bash
# agree.sh FLOWC REFERENCE BUILD WORK FLOW STEPS PLAN...: each plan compiled for cuda, built with the test double (objects in
# BUILD), trained on made-up tokens and compared with the float64 reference.
set -eu
flowc=$1 reference=$2 build=$3 work=$4 flow=$5 steps=$6
shift 6
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../scripts/mpi-env.sh"
rm -rf "$work"
mkdir -p "$work"
awk 'BEGIN { x = 1; for (i = 0; i < 4000; i++) { x = (x * 1103 + 12345) % 65521; printf "%c%c", x % 60 + 1, 0 } }' \
    > "$work/tokens.bin"
"$reference" "$flow" "$work/tokens.bin" "$steps" > "$work/reference.jsonl"
export OMP_NUM_THREADS=1 FL_STRICT_ROOM=1 FL_DOUBLE_SEED=1 ASAN_OPTIONS=detect_leaks=0
for plan; do
    "$flowc" "$flow" --plan "$plan" --target cuda -o "$work/$plan"
    make -s -f "$here/double/double.mk" PROGRAM="$work/$plan" BUILD="$build"
    ranks=$(sed -n 's/^RANKS := //p' "$work/$plan/Makefile")
    mpirun -n "$ranks" --oversubscribe "$work/$plan/run.double" --data "$work/tokens.bin" --steps "$steps" \
        --metrics "$work/$plan.jsonl" --quiet
    awk -v plan="$plan" -v steps="$steps" '
        function field(line, name,   at) {
            at = index(line, "\"" name "\"")
            return substr(line, at + length(name) + 3) + 0
        }
        function gap(a, b) { return a > b ? a - b : b - a }
        FNR == NR { loss[FNR] = field($0, "loss"); norm[FNR] = field($0, "grad_norm"); next }
        {
            l = field($0, "loss"); n = field($0, "grad_norm")
            good += l > 0 && n > 0 && gap(l, loss[FNR]) <= 5e-6 && gap(n, norm[FNR]) <= 2e-5 * norm[FNR]
        }
        END {
            printf "%s: %d of %d steps agree\n", plan, good, steps
            exit good != steps
        }' "$work/reference.jsonl" "$work/$plan.jsonl"
done
rm -rf "$work"
