#!/usr/bin/env bash
# same_curve.sh FLOWC REPO WORK STEP FROM:TO..: what the demo does with its training line, at a small size and under other plans.
set -u
flowc=$1 repo=$2 work=$3 step=$4
shift 4
row=same_curve
. "$repo/tests/accidents/setup.sh"
size=${size/lr=1e-2/lr=1e-3}             # at 1e-2 rounding grows by forty in 20 steps
for pair; do
    from=${pair%:*} to=${pair#*:}
    for plan in $from $to; do [ -e "$plan" ] || plans "$plan"; done
    rm -f whole.jsonl
    run "$from" --steps $((step + 25)) --metrics whole.jsonl >log 2>&1 || { cat log; fail "$from"; }
    "$repo/scripts/accident.sh" "$from" "$to" whole.jsonl "$step" accident --data tokens.bin || fail "$pair"
done
# the judge notices: another curve, and one that ends too early
sed -i 's/"loss": \([0-9]\.[0-9][0-9]\)/"loss": \19/' whole.jsonl
! "$repo/scripts/accident.sh" "$from" "$to" whole.jsonl "$step" accident --data tokens.bin >log 2>&1 || { cat log; fail "another curve passes"; }
grep -q 'as if nothing had happened' log || { cat log; fail "it fails otherwise"; }
echo ok
