#!/usr/bin/env bash
# loss_reasons.sh FLOWC LOSS.flow: where a loss is made without its logits --emit=logical says so, and elsewhere why not; the
# programs compile, no tensor is as large as the logits would be, and what is emitted is proved to compute what one rank does.
# loss_heads.flow beside it: two losses of one source line, of which one is made so, in a layer that is made again as a whole.
set -eu
flowc=$1 flow=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
# says PLAN TEXT [sed script]
says() {
    sed "${3:-}" "$flow" >"$work/loss.flow"
    "$flowc" "$work/loss.flow" --plan "$1" --emit=logical | grep "# loss.flow:18" >"$work/said" || true
    grep -qF "$2" "$work/said" || { echo "plan $1, ${3:-as it is}: expected '$2', got"; cat "$work/said"; bad=1; }
    "$flowc" "$work/loss.flow" --plan "$1" --check --verify >"$work/check" 2>&1 || { cat "$work/check"; bad=1; }
    grep -q "^verified" "$work/check" || { cat "$work/check"; bad=1; }
}
line='first = sum(cross_entropy(one: einsum("ntd,vd->ntv", x, table), targets))'
for plan in one mb dp2_mb2 cp2 zero3 pp2; do
    says $plan "their logits are read by the loss alone: made a few rows at a time"
done
says tp2 "logits stay whole: table is split over tp"
says tp2 "which leaves 10.5 MiB of them in a micro-batch, no more than are made at a time"
says tp2 "which leaves 52.5 MiB of them in a micro-batch: to make them once more is 17 % of a step's operations, and done where \`recompute\` asks" \
    's/dim N = 4/dim N = 20/'
for plan in tp2_rows dp2_tp3_rows pp2_tp2_rows short_rows; do
    says $plan "made a few rows at a time, and once more for their gradient: as \`recompute\` asks"
done
says tp2 "made a few rows at a time, and once more for their gradient: table is split over tp, which leaves 524.9 MiB of them in a micro-batch" 's/dim N = 4/dim N = 200/'
# No tensor of a rank is as large as its 105 MiB of logits: the largest is the room for a piece of them.
sed 's/dim N = 4/dim N = 40/' "$flow" >"$work/loss.flow"
"$flowc" "$work/loss.flow" --plan tp2_rows --no-verify --emit=memory | awk '
    $1 ~ /^[0-9]+$/ && $2 > most { most = $2 } END { if (most < 8e6 || most > 17e6) { print "a tensor of " most + 0 " bytes"; exit 1 } }' || bad=1
says tp2 "logits stay whole: table is split over tp, and over dp, too" \
    's/plan tp2 { mesh m = \[tp: 2\]; sbp table, second = {tp: S(V)}/plan tp2 { mesh m = [tp: 2, dp: 2]; sbp table, second = {(tp, dp): S(V)}/'
says whole "logits stay whole: loss.flow:24 says where they are"
says one "logits stay whole: the classes may lie split over dp" 's/plan one { mesh m = \[dp: 1\]/plan one { mesh m = [dp: 2]/'
says one "logits stay whole: square reads them, too" "s/first = .*/l = one: einsum(\"ntd,vd->ntv\", x, table); first = sum(cross_entropy(l, targets)) + sum(square(l))/"
says one "logits stay whole: they are made by mul" 's/x, table)/x, table) * 2/'
says one "logits stay whole: the backward reads the loss" 's/first = sum(\(.*\))$/first = sum(square(\1))/'
says one "logits stay whole: more than one loss is made of them" \
    "s/first = .*/l = one: einsum(\"ntd,vd->ntv\", x, table); first = sum(cross_entropy(l, targets)) + sum(cross_entropy(l, targets, smoothing = 0.1))/"
says one "logits stay whole: their product is not of rows" 's/ntd,vd->ntv", x, table/ntd,vd->tnv", x, table/; s/first = sum(cross_entropy(\(.*\), targets))/first = sum(cross_entropy(\1, transpose(targets)))/'
says short "logits stay whole: the gradient of the matrix is bf16" 's/grads f32/grads bf16/'

# Made again is what comes before the head; its product is made once in either pass, and what crosses the axis crosses it once.
heads=$(dirname "$flow")/loss_heads.flow
for plan in first other; do
    "$flowc" "$heads" --plan $plan --emit=logical >"$work/heads"
    grep -q "tanh~again" "$work/heads" || { echo "heads $plan: nothing is made again"; bad=1; }
    for made in "linear_ce_parts(" "linear_ce_parts_grad("; do
        count=$(grep -cF "$made" "$work/heads") || true
        [ "$count" = 1 ] || { echo "heads $plan: $count of $made"; grep -F "$made" "$work/heads"; bad=1; }
    done
    "$flowc" "$heads" --plan $plan --emit=comm >"$work/comm"
    grep "recompute" "$work/comm" && { echo "heads $plan: communication once more"; bad=1; }
    # So large that it is compared at small sizes, where either loss is made as it is at these.
    large="--plan $plan --set N=100 --set D=64 --check"
    "$flowc" "$heads" $large >"$work/check" 2>&1 || bad=1
    if grep -q "not compared" "$work/check"; then
        cat "$work/check"
        bad=1
    else
        "$flowc" "$heads" $large --verify 2>&1 | grep -q "^verified" || { echo "heads $plan: not verified"; bad=1; }
    fi
done
exit $bad
