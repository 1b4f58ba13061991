#!/bin/sh
# spoilt.sh FLOWC GPT: each fault of --spoil is refused with the tensor and its line; --no-verify lets it pass, and says
# so in plan.json; an unspoilt plan is equal.
flowc=$1 gpt=$2 bad=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
"$flowc" "$gpt" --plan dp2_tp2_pp2 --check --verify 2>"$work/messages" || { cat "$work/messages"; exit 1; }
grep -q '^verified: ' "$work/messages" || { echo "not verified"; cat "$work/messages"; bad=1; }
while IFS='|' read -r fault tensor line; do
    "$flowc" "$gpt" --plan dp2_tp2_pp2 --check --spoil "$fault" 2>"$work/messages" && { echo "$fault: not found"; bad=1; }
    grep -qF "error[E0608]: '$tensor'" "$work/messages" && grep -qF "gpt.flow:$line:" "$work/messages" ||
        { echo "$fault: expected $tensor, line $line"; cat "$work/messages"; bad=1; }
done <<'FAULTS'
drop all_reduce(tp) h[*].mlp.einsum@2|h[*].mlp.einsum@2|38
double all_reduce(dp) h[*].mlp.up_weight#grad|h[*].mlp.up_weight#grad|37
misgroup all_reduce(dp) h[*].mlp.up_weight#grad|h[*].mlp.up_weight#grad|37
early accumulate h[*].mlp.up_weight#grad|h[*].mlp.up_weight#grad|37
early post h[*].mlp.up_weight#grad|h[*].attn.qkv_weight#grad|26
FAULTS
# in a piece of a repeat, blocks have their number in the whole one
{ cat "$gpt"; sed -n '/^plan tp2 /,/^}/p' "$gpt" | sed 's/^plan tp2 /plan pieces /; s/^}/    recompute h[2..4]\n}/'; } >"$work/pieces.flow"
"$flowc" "$work/pieces.flow" --plan pieces --set L=4 --check --spoil 'drop all_reduce(tp) h[*].attn.einsum@2~again' 2>"$work/messages"
grep -qF "'h[*].attn.einsum@2~again' is not" "$work/messages" && grep -q 'backward of train.*, block 3 on rank' "$work/messages" ||
    { echo "a piece: not the tensor, or not its block"; cat "$work/messages"; bad=1; }
"$flowc" "$gpt" --plan tp2 --target cpu --no-verify --spoil 'drop all_reduce(tp) h[*].mlp.einsum@2' -o "$work/out" ||
    { echo "--no-verify does not let it pass"; bad=1; }
grep -q '"spoilt": "drop' "$work/out/plan.json" || { echo "plan.json does not say that it is spoilt"; bad=1; }
"$flowc" "$gpt" --plan single --check --spoil 'drop all_reduce(tp) h[*].mlp.einsum@2' 2>"$work/messages"
grep -q 'E0803' "$work/messages" || { echo "no such communication: not said"; bad=1; }
exit $bad
