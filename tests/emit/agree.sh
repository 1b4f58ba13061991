#!/usr/bin/env bash
# agree.sh FLOWC WORK FLOW PLAN...: compiles a program for each plan, trains it a few steps on made-up tokens and compares
# losses and gradient norms with the first plan's, which runs on one rank.
set -eu
. "$(dirname "$0")/../../scripts/mpi-env.sh"
flowc=$1 work=$2 flow=$3
shift 3
first=$1
rm -rf "$work"
mkdir -p "$work"
awk 'BEGIN { x = 1; for (i = 0; i < 4000; i++) { x = (x * 1103 + 12345) % 65521; printf "%c%c", x % 60 + 1, 0 } }' \
    > "$work/tokens.bin"
export OMP_NUM_THREADS=1
for plan; do
    out=$work/$plan
    "$flowc" "$flow" --plan "$plan" --target cpu -o "$out"
    if [ "$plan" != "$first" ]; then                      # the runtime is the same: compile it once
        (cd "$work/$first" && find runtime -name '*.o') | while read -r o; do cp -p "$work/$first/$o" "$out/$o"; done
        find "$out/runtime" -name '*.o' -exec touch {} +
    fi
    make -s -C "$out" -j2 ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
    ranks=$(sed -n 's/^RANKS := //p' "$out/Makefile")
    mpirun -n "$ranks" --oversubscribe "$out/run" --data "$work/tokens.bin" --steps 8 --metrics "$work/$plan.jsonl" --quiet
done
for plan; do
    awk -v plan="$plan" '
        function field(line, name,   at) { at = index(line, "\"" name "\""); line = substr(line, at + length(name) + 3); return line + 0 }
        FNR == NR { loss[FNR] = field($0, "loss"); norm[FNR] = field($0, "grad_norm"); next }
        { l = field($0, "loss") - loss[FNR]; n = (field($0, "grad_norm") - norm[FNR]) / norm[FNR]; n = n < 0 ? -n : n
          l = l < 0 ? -l : l; if (l > worst) worst = l; if (n > worst_n) worst_n = n; steps++
          if (!(loss[FNR] > 0 && norm[FNR] > 0)) bad = 1 }
        END { printf "%s: %d steps, loss within %g, norm within %g\n", plan, steps, worst, worst_n
              exit steps != 8 || bad || worst > 5e-6 || worst_n > 2e-5 }' "$work/$first.jsonl" "$work/$plan.jsonl"
done
rm -rf "$work"
