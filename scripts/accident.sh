#!/usr/bin/env bash
# accident.sh FROM TO WHOLE.jsonl STEP WORK arguments of run: the run of program FROM that wrote WHOLE.jsonl is made once more,
# with checkpoints, and one of its ranks, drawn at random, is killed with -9 once step STEP is done. Program TO, the same
# model under another plan, goes on from the checkpoint that is there by then, for 20 steps: as if nothing had happened,
# within the tolerances that hold between plans, 5e-6 for the loss and 2e-5 of it for the gradient norm.
set -u
from=$1 to=$2 whole=$3 step=$4 work=$5
shift 5
after=20 every=$(((step + 5) / 6))
fail() { echo "accident: $*" >&2; exit 1; }
ranks() { sed -n 's/^RANKS := //p' "$1/Makefile"; }
numbers() { sed -n 's/.*"step": *\([0-9]*\),.*"loss": *\([^,}]*\).*"grad_norm": *\([^,}]*\).*/\1 \2 \3/p' "$1"; }
rm -rf "$work"
mkdir -p "$work"
. "$(dirname "$0")/mpi-env.sh"

mpirun -n "$(ranks "$from")" sh -c 'echo $$ >"$0/pid.$OMPI_COMM_WORLD_RANK"; exec "$@"' "$work" \
    "$from/run" "$@" --quiet --save "$work/ck" --save-every $every --metrics "$work/killed.jsonl" >"$work/killed.log" 2>&1 &
job=$!
SECONDS=0
until grep -q "\"step\": $step," "$work/killed.jsonl" 2>/dev/null; do
    kill -0 $job 2>/dev/null || { cat "$work/killed.log"; fail "the run ends before step $step"; }
    [ $SECONDS -lt "${ACCIDENT_LIMIT:-1800}" ] || { kill $job; cat "$work/killed.log"; fail "no step $step within $SECONDS s"; }
    sleep 0.02
done
victim=$((RANDOM % $(ranks "$from")))
kill -KILL "$(cat "$work/pid.$victim")"
wait $job && fail "the run did not notice"
grep -q "^flow: .*rank $victim" "$work/killed.log" || { cat "$work/killed.log"; fail "nobody says that rank $victim is gone"; }
[ -e "$work/ck/latest" ] || fail "no checkpoint"
at=$(sed -n 's/.*"step": *\([0-9]*\).*/\1/p' "$work/ck/$(cat "$work/ck/latest")/manifest.json")
echo "rank $victim killed with -9 behind step $step; $(ranks "$to") ranks of ${to##*/} go on from the checkpoint of step $at"

mpirun -n "$(ranks "$to")" "$to/run" "$@" --quiet --resume "$work/ck" --steps $((at + after)) --metrics "$work/resumed.jsonl" \
    >"$work/resumed.log" 2>&1 || { cat "$work/resumed.log"; fail "it does not go on"; }
numbers "$whole" | awk -v at="$at" -v n=$after '$1 > at && $1 <= at + n' >"$work/whole"
numbers "$work/resumed.jsonl" >"$work/resumed"
echo "step   undisturbed    killed and resumed"
paste -d ' ' "$work/whole" "$work/resumed" | awk -v n=$after '
    function off(a, b) { return a < b ? b - a : a - b }
    NF != 6 || $1 != $4 { exit bad = 1 }
    { d = off($2, $5); e = off($3, $6) / $3; loss = d > loss ? d : loss; norm = e > norm ? e : norm }
    NR % 5 == 1 || NR == n { printf "%4d   %-12.9f   %-12.9f\n", $1, $2, $5 }
    END { printf "largest difference in %d steps: loss %.2g, gradient norm %.2g of it\n", NR, loss, norm
          exit bad || NR != n || loss > 5e-6 || norm > 2e-5 }' || fail "it does not go on as if nothing had happened"
