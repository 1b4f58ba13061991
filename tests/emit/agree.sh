#!/usr/bin/env bash
# agree.sh FLOWC REFERENCE WORK FLOW PLAN...: compiles a program for each plan, trains it a few steps on made-up tokens and
# compares losses and gradient norms with the float64 reference.
set -eu
. "$(dirname "$0")/../../scripts/mpi-env.sh"
flowc=$1 reference=$2 work=$3 flow=$4
shift 4
first=$1
rm -rf "$work"
mkdir -p "$work"
awk 'BEGIN { x = 1; for (i = 0; i < 4000; i++) { x = (x * 1103 + 12345) % 65521; printf "%c%c", x % 60 + 1, 0 } }' \
    > "$work/tokens.bin"
"$reference" "$flow" "$work/tokens.bin" 8 > "$work/reference.jsonl"
export OMP_NUM_THREADS=1 FL_STRICT_ROOM=1      # no kernel takes memory beside the plan
for plan; do
    out=$work/$plan
    "$flowc" "$flow" --plan "$plan" --target cpu -o "$out"
    if [ "$plan" != "$first" ] && [ -z "${FL_RUNTIME_LIB:-}" ]; then                      # the runtime is the same: compile it once
        (cd "$work/$first" && find runtime -name '*.o') | while read -r o; do cp -p "$work/$first/$o" "$out/$o"; done
        find "$out/runtime" -name '*.o' -exec touch {} +
    fi
    make -s -C "$out" -j2 ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
    ranks=$(sed -n 's/^RANKS := //p' "$out/Makefile")
    mpirun -n "$ranks" --oversubscribe "$out/run" --data "$work/tokens.bin" --steps 8 --metrics "$work/$plan.jsonl" --quiet
done
bad=0
for plan; do
    awk -v plan="$plan" '
        function field(line, name,   at) {
            at = index(line, "\"" name "\"")
            return substr(line, at + length(name) + 3) + 0
        }
        function gap(a, b) { return a > b ? a - b : b - a }
        FNR == NR { loss[FNR] = field($0, "loss"); norm[FNR] = field($0, "grad_norm"); next }
        {
            l = gap(field($0, "loss"), loss[FNR]); n = gap(field($0, "grad_norm"), norm[FNR]) / norm[FNR]
            if (l > worst) worst = l
            if (n > worst_n) worst_n = n
            if (!(loss[FNR] > 0 && norm[FNR] > 0)) bad = 1
            steps++
        }
        END {
            printf "%s: %d steps, loss within %g, norm within %g\n", plan, steps, worst, worst_n
            exit steps != 8 || bad || worst > 5e-6 || worst_n > 2e-5
        }' "$work/reference.jsonl" "$work/$plan.jsonl" || bad=1
done
[ "$bad" = 0 ]
rm -rf "$work"
