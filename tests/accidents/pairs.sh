#!/usr/bin/env bash
# pairs.sh FLOWC REPO WORK SAME [FROM:TO]..: saved under each plan of the GPT example after 5 steps, resumed under each other
# to step 10: losses and norms are those of a run on one rank that nobody stopped, within 5e-6 and 2e-5 (0.1 % where a plan
# computes in 16 bits). Once for each plan: what it resumes and saves again is what was saved, bit for bit. Without pairs:
# all of them.
set -u
flowc=$1 repo=$2 work=$3 same=$4
shift 4
row=pairs
. "$repo/tests/accidents/setup.sh"
all=$(sed -n 's/^plan \([a-z0-9_]*\).*/\1/p' "$repo/examples/gpt/gpt.flow")
pairs=("$@")
[ $# -gt 0 ] || for a in $all; do for b in $all; do pairs+=("$a:$b"); done; done
used=$(printf '%s\n' single "${pairs[@]//:/ }" | tr ' ' '\n' | sort -u)
# shellcheck disable=SC2086
plans $used
numbers() { sed -n 's/.*"step": *\([0-9]*\).*"loss": *\([^,}]*\).*"grad_norm": *\([^,}]*\).*/\1 \2 \3/p' "$1" | awk '$1 > 5'; }
run single --steps 10 --metrics whole.jsonl || fail "single"
numbers whole.jsonl >whole
[ "$(wc -l <whole)" = 5 ] || fail "no numbers"
worst=0 done=0
for pair in "${pairs[@]}"; do
    from=${pair%:*} to=${pair#*:}
    [ -e "ck_$from" ] || run "$from" --steps 5 --save "ck_$from" >log 2>&1 || { cat log; fail "$from: save"; }
    rm -f part.jsonl
    if [ ! -e "again_$to" ]; then
        run "$to" --steps 5 --resume "ck_$from" --save "again_$to" >log 2>&1 || { cat log; fail "$pair: it does not load"; }
        "$same" "ck_$from/step_000005" "again_$to/step_000005" >log || { cat log; fail "$pair: other tensors"; }
    fi
    run "$to" --steps 10 --resume "ck_$from" --metrics part.jsonl >log 2>&1 || { cat log; fail "$pair: it does not go on"; }
    numbers part.jsonl >part
    loose=0
    case $pair in *bf16*) loose=1 ;; esac
    got=$(paste -d ' ' whole part | awk -v loose=$loose '
        function off(a, b) { return a < b ? b - a : a - b }
        NF != 6 || $1 != $4 { bad = 1 }
        { d = off($2, $5); worst = d > worst ? d : worst; e = off($3, $6) / $3
          bad = bad || d > (loose ? 1e-3 * $2 : 5e-6) || e > (loose ? 2e-2 : 2e-5) }
        END { print bad + 0, worst }')
    [ "${got% *}" = 0 ] || { paste whole part; fail "$pair: it goes on otherwise"; }
    [ $loose = 1 ] || worst=$(echo "$worst ${got#* }" | awk '{ print ($1 > $2 ? $1 : $2) }')
    done=$((done + 1))
    [ ${#pairs[@]} -lt 50 ] || [ $((done % 25)) != 0 ] || echo "$done of ${#pairs[@]}"
done
echo "$done pairs of plans: the same tensors, and the losses of a run that nobody stopped (furthest in f32: $worst)"
cd /
rm -rf "$work"
