#!/usr/bin/env bash
# dump.sh FLOWC WORK HERE [DOUBLE]: the tensors of one step, as different plans (micro-batches, stages, split and padded dims,
# shares) have them, are the same logical tensors; the first one that a changed weight changes is named, forward and
# backward. With DOUBLE the cuda target's are compared with those of the cpu target.
set -eu
. "$(dirname "$0")/target.sh"
gpt=$here/../../examples/gpt/gpt.flow
size="--set N=8 --set T=8 --set V=61 --set D=16 --set H=4 --set L=4 --set M=2 --set warmup=2 --set lr=1e-2 --set steps=9"
perl -e 'my $s = 7; print pack("v*", map { $s = ($s * 1103515245 + 12345) & 0x7fffffff; ($s >> 16) % 61 } 1 .. 1000)' >tokens.bin
names() { perl -e 'open F, "<", $ARGV[0]; read F, $b, 8; read F, $h, unpack "Q<", $b; print join " ", $h =~ /"([^"]+)":\{"dtype/g' "$1"; }
# shellcheck disable=SC2086
(double='' && build one "$gpt" --plan single $size --set M=1)
run one --data tokens.bin --steps 2 --export w.safetensors
run one --data tokens.bin --steps 3 --load w.safetensors --dump '*' -o one.st --dump-step 2
case " $(names one.st) " in *" wte.weight#grad "*) ;; *) fail "the gradient of the tied table, a sum over its two uses, is not there" ;; esac
plans="tp2_pp2 zero3 cp2"
[ -z "$double" ] || plans=dp2_tp2
for plan in $plans; do
    # shellcheck disable=SC2086
    build $plan "$gpt" --plan $plan $size
    run $plan --data tokens.bin --steps 2 --load w.safetensors --dump '*' -o $plan.st --dump-step 2 2>out
    said 'tensors of step 2 are in'
    "$FLOW_DIFF" one.st $plan.st >out || { cat out; fail "$plan"; }
    awk '/tensors agree/ { exit $1 < 180 }' out || { cat out; fail "$plan: too few"; }
done

# Named values that are fused away are there; patterns, and one block.
run $plan --data tokens.bin --steps 1 --load w.safetensors --dump 'h[*].attn, h[2].ln_1#grad,h[3]' -o few.st
[ "$(names few.st)" = "h[0].attn h[1].attn h[2].attn h[3].attn h[3] h[2].ln_1#grad" ] || fail "$(names few.st)"
"$FLOW_DIFF" few.st few.st >out
said '6 tensors agree'
refused run $plan --data tokens.bin --steps 1 --dump 'h[*].atn' -o no.st
said "no value of a step is called 'h\[\*\].atn'"
for block in 'h[4].attn' 'h[*].attn, h[2..2]'; do
    refused run $plan --data tokens.bin --steps 1 --dump "$block" -o no.st
    said "means no block: there are 4, the first is 0"
done
refused run $plan --data tokens.bin --steps 1 --dump 'h[-1].attn' -o no.st
said "no value of a step is called 'h\[-1\].attn'"
refused run $plan --data tokens.bin --steps 1 --dump 'h[*].attn'
said 'go together'

# One weight of block 2 changed: what comes before agrees.
perl -e 'local $/; open F, "<", "w.safetensors"; $_ = <F>; my $n = unpack "Q<", $_;
    substr($_, 8, $n) =~ /"h\.2\.mlp\.c_proj\.bias":\{[^}]*"data_offsets":\[(\d+)/ or die "no such tensor";
    substr($_, 8 + $n + $1 + 12, 4) = pack "f<", 0.5; open T, ">", "x.safetensors"; print T $_'
run $plan --data tokens.bin --steps 1 --load x.safetensors --dump '*.attn, *.mlp, h[*]' -o x.st
run $plan --data tokens.bin --steps 1 --load w.safetensors --dump '*.attn, *.mlp, h[*]' -o y.st
if "$FLOW_DIFF" x.st y.st >out; then cat out; fail "it does not see the change"; fi
said '^the first that differs, behind 7 that agree'
said '^h\[2\].mlp F32\[8, 8, 16\] differs: max |a - b| 0.[45].* at \[[0-7], [0-7], 3\]'
if "$FLOW_DIFF" w.safetensors x.safetensors >out; then cat out; fail "it does not see the weight"; fi
said '^h.2.mlp.c_proj.bias F32\[16\] differs: .* at \[3\]'
said '^1 of [0-9]* tensors differ'
run $plan --data tokens.bin --steps 1 --load w.safetensors --dump 'h[3].x@2' -o z.st         # the other name of it
if "$FLOW_DIFF" few.st z.st >out; then fail "another name"; fi
said 'no tensor in common'
"$FLOW_DIFF" few.st z.st --rename 'h[3].*=h[3]' >out || { cat out; fail "renamed"; }
said '1 tensors agree'

# Whole numbers, as files of other frameworks have them, are compared too; one that is no number is infinitely far off.
perl -e 'for (["i.st", 3, 2], ["j.st", 3, "nan"], ["k.st", 4, 2], ["l.st", 3, "inf"]) { my ($name, $i, $x) = @$_; open F, ">", $name;
    my $h = q({"i":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"x":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}});
    print F pack("Q<", length $h), $h, pack("q<", $i), pack("f<", $x); close F }'
"$FLOW_DIFF" i.st i.st >out || { cat out; fail "a file and itself"; }
said '^2 tensors agree'
if "$FLOW_DIFF" i.st k.st >out; then fail "another whole number"; fi
said '^i is not the same byte by byte: I64\[1\] and I64\[1\]'
if "$FLOW_DIFF" i.st j.st >out; then fail "no number"; fi
said '^x F32\[1\] differs: max |a - b| inf at \[0\] (2 and nan), max rel inf'
if "$FLOW_DIFF" i.st l.st >out; then fail "no end"; fi
said '^x F32\[1\] differs: max |a - b| inf at \[0\] (2 and inf), max rel inf'

# A loss in rows never has the whole logits, and says so; gradients of f16 are those of f32, whatever the scale.
refused run one --data tokens.bin --steps 1 --dump logits -o no.st
said 'dump: logits (.*gpt.flow:[0-9]*) is never whole: the loss is made some rows at a time, as nothing else reads logits'
refused run one --data tokens.bin --steps 1 --dump 'head#grad' -o no.st
said 'dump: head#grad (.*gpt.flow:[0-9]*) is never whole'
# shellcheck disable=SC2086
build split "$gpt" --plan tp2 $size
run split --data tokens.bin --steps 1 --dump logits -o split.st || fail "split logits are there"
perl -e 'print pack "f<*", map { sin($_ * $_) } 0 .. 12 * 8 * 12 - 1' >x.bin
for plan in wide dp2; do
    build $plan "$here/../train/scale.flow" --plan $plan --set small=1e-3 --set start=4096
    run $plan --steps 1 --dump 'h[*].*#grad' -o $plan.st
done
"$FLOW_DIFF" wide.st dp2.st --rtol 1e-2 >out || { cat out; fail "the gradients of f16 are others"; }
said '^[1-9][0-9]* tensors agree'
