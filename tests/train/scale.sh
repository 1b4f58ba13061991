#!/usr/bin/env bash
# scale.sh FLOWC WORK TARGET [BUILD]: loss scaling of f16, on cpu, or on cuda with the test double (objects in BUILD). Steps that
# overflow really are skipped and halve the scale, good ones double it, the same on one rank and on several; training goes on
# through them; a run that is resumed has the numbers of one that nobody stopped; f16 without a scale has no gradient where
# gradients are small; bf16 has no scale.
set -eu
flowc=$1 work=$2 target=$3 double=${4-}
here=$(cd "$(dirname "$0")" && pwd)
export FL_DOUBLE_SEED=3
. "$here/../program.sh"
perl -e 'print pack "f<*", map { sin($_ * $_) } 0 .. 12 * 8 * 12 - 1' >x.bin
field() { sed -n "s/.*\"$1\": *\\([-+.e0-9a-z]*\\).*/\\1/p" "$2"; }
for plan in one dp2 tp2 pp2; do
    build $plan "$target" "$here/scale.flow" $plan
    run $plan --steps 12 --metrics $plan.jsonl
    field loss_scale $plan.jsonl >$plan.scale
    cmp one.scale $plan.scale || fail "$plan: other scales"
    paste <(field loss one.jsonl) <(field loss $plan.jsonl) | awk '{ d = $1 - $2; if (d * d > 1e-5 * $1 * $1) { print; bad = 1 } }
        END { exit bad || NR != 12 }' || fail "$plan: other losses"
done
awk 'NR > 1 { up += $1 == 2 * last; down += 2 * $1 == last; bad += $1 != last && $1 != 2 * last && 2 * $1 != last } { last = $1 }
    END { exit bad || !up || down < 2 }' one.scale || fail "no overflow, or no growth: $(tr '\n' ' ' <one.scale)"
grep -q 'is skipped: the gradient norm is .*, the loss scale is halved' text || fail "not said: $(cat text)"
skipped=$(field skipped_steps one.jsonl | tail -1)
[ "$skipped" -ge 3 ] && [ "$skipped" -le 7 ] || fail "$skipped steps were skipped"
field loss one.jsonl | awk 'NR == 1 { first = $1 } END { exit !($1 < 0.9 * first) }' || fail "the loss does not fall"

run dp2 --steps 5 --save ck
grep -q '"loss_scale": ' ck/step_000005/manifest.json || fail "no scale in the manifest"
run dp2 --steps 12 --resume ck --metrics rest.jsonl
for name in loss grad_norm loss_scale; do
    cmp <(field $name dp2.jsonl | tail -7) <(field $name rest.jsonl) || fail "resumed with another $name"
done
build wide "$target" "$here/scale.flow" wide
run wide --steps 5 --resume ck --save between                       # f32 hands on what it has no use for
run one --steps 6 --resume between --metrics again.jsonl
cmp <(field loss_scale dp2.jsonl | sed -n 6p) <(field loss_scale again.jsonl) || fail "f32 lost the scale"

build without "$target" "$here/scale.flow" one --set small=1e-11 --set start=1
run without --steps 1 --metrics without.jsonl
build with "$target" "$here/scale.flow" one --set small=1e-11
run with --steps 1 --metrics with.jsonl
build true "$target" "$here/scale.flow" wide --set small=1e-11
run true --steps 1 --metrics true.jsonl
paste <(field grad_norm without.jsonl) <(field grad_norm with.jsonl) <(field grad_norm true.jsonl) | awk '
    { print; d = $2 - $3; exit !($1 < 0.5 * $3 && d * d < 1e-4 * $3 * $3) }' || fail "small gradients"
build brain "$target" "$here/scale.flow" brain
run brain --steps 1 --metrics brain.jsonl
grep -q loss_scale brain.jsonl && fail "bf16 has a scale"
finish
