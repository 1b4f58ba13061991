#!/usr/bin/env bash
# precision.sh FLOWC REFERENCE WORK FLOW PLAN...: trains the program under plans with a `precision` line. The first steps
# are close to float64 with the same roundings, all losses within 1 % of float64 without.
set -eu
. "$(dirname "$0")/../../scripts/mpi-env.sh"
flowc=$1 reference=$2 work=$3 flow=$4
shift 4
rm -rf "$work"
mkdir -p "$work"
awk 'BEGIN { x = 1; for (i = 0; i < 4000; i++) { x = (x * 1103 + 12345) % 65521; printf "%c%c", x % 38 + 1, 0 } }' \
    > "$work/tokens.bin"
"$reference" "$flow" "$work/tokens.bin" 8 > "$work/exact.jsonl"
export OMP_NUM_THREADS=1 FL_STRICT_ROOM=1
bad=0
for plan; do
    out=$work/$plan
    "$flowc" "$flow" --plan "$plan" --target cpu -o "$out" 2> "$work/said" || { cat "$work/said"; exit 1; }
    make -s -C "$out" -j2 ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
    ranks=$(sed -n 's/^RANKS := //p' "$out/Makefile")
    mpirun -n "$ranks" --oversubscribe "$out/run" --data "$work/tokens.bin" --steps 8 --metrics "$work/$plan.jsonl" --quiet
    "$reference" "$flow" "$work/tokens.bin" 8 "$plan" > "$work/$plan.rounded"
    awk -v plan="$plan" '
        function field(line, name,   at) {
            at = index(line, "\"" name "\"")
            return substr(line, at + length(name) + 3) + 0
        }
        function gap(a, b) { return a > b ? (a - b) / b : (b - a) / b }
        FNR == 1 { file++ }
        file == 1 { exact[FNR] = field($0, "loss"); next }
        file == 2 { loss[FNR] = field($0, "loss"); norm[FNR] = field($0, "grad_norm"); next }
        {
            l = gap(field($0, "loss"), loss[FNR]); n = gap(field($0, "grad_norm"), norm[FNR]); x = gap(field($0, "loss"), exact[FNR])
            if (FNR <= 2 && l > first) first = l
            if (FNR <= 2 && n > first_n) first_n = n
            if (x > worst) worst = x
            if (x > 0) rounds = 1
            steps++
        }
        END {
            printf "%s: first steps: loss within %g, norm within %g; %d steps: loss within %g\n", plan, first, first_n, steps, worst
            exit steps != 8 || !rounds || first > 2e-5 || first_n > 5e-3 || worst > 1e-2
        }' "$work/exact.jsonl" "$work/$plan.rounded" "$work/$plan.jsonl" || bad=1
done
[ "$bad" = 0 ]
rm -rf "$work"
