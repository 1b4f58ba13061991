#!/usr/bin/env bash
# finite.sh FLOWC WORK HERE [DOUBLE]: a 0 in row 5 of the second step's data, of which the model takes the logarithm. It is on
# rank 1, in its first micro-batch; --check-finite names all that, once, and the exit code is not 0. Under a loss scale a step
# whose gradients overflow is passed over, and told where the run ends with it; what no scale mends is named at once.
set -eu
. "$(dirname "$0")/target.sh"
perl -e 'print pack("f<*", map { $_ == 13 * 8 + 3 ? 0 : 0.5 + ($_ % 7) / 4 } 0 .. 127)' >x.bin
build grid "$here/finite.flow" --plan grid
refused run grid --check-finite
said 'rank 1: step 2: the first infinity is in level, which fused(log, mul) makes at .*finite.flow:[0-9]*, forward, micro-batch 0 of 2: -inf at \[5, 3\]'
[ "$(grep -c '^flow: ' out)" = 1 ] || { cat out; fail "more than one report"; }
run grid --check-finite --steps 1                          # the first step is fine

# f16: the first steps overflow and are skipped; the run goes on to the end, and ends with a good step, or with a bad one
perl -e 'print pack "f<*", map { sin($_ * $_) } 0 .. 12 * 8 * 12 - 1' >x.bin
plans='one dp2 pp2'
[ -z "$double" ] || plans=dp2
for plan in $plans; do
    build scaled_$plan "$here/../train/scale.flow" --plan $plan
    run scaled_$plan --check-finite --metrics m.jsonl >out 2>&1 || { cat out; fail "$plan: a step that is skipped ends the run"; }
    said 'is skipped: the gradient norm is'
    good=$(sed -n 's/{"step": \([0-9]*\),.*"grad_norm": [0-9].*/\1/p' m.jsonl | head -n 1)
    [ "$good" -gt 1 ] || fail "$plan: nothing overflows"
    run scaled_$plan --check-finite --steps "$good" >out 2>&1 || { cat out; fail "$plan"; }
    ! grep -q 'the last step was skipped' out || { cat out; fail "$plan: a good step is called skipped"; }
    run scaled_$plan --check-finite --steps $((good - 1)) >out 2>&1 || { cat out; fail "$plan"; }
    said "^flow: the last step was skipped: rank [01]: step $((good - 1)): the first infinity is in .*, which .* makes at .*scale.flow:[0-9]*, backward"
    [ "$(grep -c 'the last step was skipped' out)" = 1 ] || { cat out; fail "$plan: told twice"; }
done
# a root at 0 has no gradient at any scale: named once the scale has come down; the forward's NaN at once
sed 's/return small.*/return sum(sqrt(square(x - x) * 0.5)) + 1e-3 * sum(square(x))/; s/loss_scale start/loss_scale 1/' "$here/../train/scale.flow" >root.flow
build root root.flow --plan one
refused run root --check-finite --steps 100
said 'rank 0: step 2[0-9]: the first NaN is in .*, which .* makes at root.flow:'
sed 's/return small.*/return sum(log(x - x - 1)) + 1e-3 * sum(square(x))/' "$here/../train/scale.flow" >never.flow
build never never.flow --plan dp2
refused run never --check-finite --steps 100
said 'rank [01]: step 1: the first NaN is in .*, which .* makes at never.flow:15, forward'
