#!/usr/bin/env bash
# equal.sh FLOWC WORK FLOW PLAN...: trains a few steps under each plan; the losses must be those of the first plan.
set -eu
flowc=$1 work=$2 flow=$3
shift 3
first=$1
rm -rf "$work"
mkdir -p "$work"
awk 'BEGIN { x = 1; for (i = 0; i < 4000; i++) { x = (x * 1103 + 12345) % 65521; printf "%c%c", x % 60 + 1, 0 } }' \
    > "$work/tokens.bin"
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for plan; do
    "$flowc" "$flow" --plan "$plan" --target cpu -o "$work/$plan"
    make -s -C "$work/$plan" -j2 ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
    ranks=$(sed -n 's/^RANKS := //p' "$work/$plan/Makefile")
    mpirun -n "$ranks" --oversubscribe "$work/$plan/run" --data "$work/tokens.bin" --steps 8 --metrics "$work/$plan.jsonl" --quiet
    awk -v plan="$plan" '
        function field(line, name,   at) {
            at = index(line, "\"" name "\"")
            return substr(line, at + length(name) + 3) + 0
        }
        function gap(a, b) { return a > b ? a - b : b - a }
        FNR == NR { loss[FNR] = field($0, "loss"); norm[FNR] = field($0, "grad_norm"); next }
        {
            l = gap(field($0, "loss"), loss[FNR]); n = gap(field($0, "grad_norm"), norm[FNR])
            worst = l > worst ? l : worst; worst_n = n > worst_n ? n : worst_n
            steps++
        }
        END {
            printf "%s: %d steps, loss within %g, norm within %g\n", plan, steps, worst, worst_n
            exit steps != 8 || loss[8] >= loss[1] || worst > 5e-6 || worst_n > 2e-5
        }' "$work/$first.jsonl" "$work/$plan.jsonl"
done
rm -rf "$work"
