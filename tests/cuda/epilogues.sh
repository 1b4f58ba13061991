#!/usr/bin/env bash
# epilogues.sh FLOWC BUILD WORK: products take along what follows them, each for a reason that --emit=fuse tells; in 16 bits all of
# them are one call, and so are products over two batch dims. The losses are those of the cpu target, and those without any
# epilogue; objects of the double are in BUILD.
set -eu
flowc=$1 double=$2 work=$3
here=$(cd "$(dirname "$0")" && pwd)
export FL_DOUBLE_SEED=3
. "$here/../program.sh"
perl -e 'print pack "f<*", map { sin($_ * $_) } 0 .. 3 * 4 * 8 * 16 - 1' >x.bin
"$flowc" "$here/epilogues.flow" --plan short --emit=fuse >short.text
for why in 'product + bias$' 'product + bias + residual$' 'product + bias, gelu, whose operand is kept$' 'product + bias, relu$' \
           'product + residual$' 'product, gelu_grad$' 'the gradients of a weight and of its bias$'; do
    grep -q "; one call: $why" short.text || fail "not in one call: $why"
done
"$flowc" "$here/epilogues.flow" --plan full --emit=fuse >full.text
grep -q 'in f32 the activation is computed by a kernel of its own' full.text || fail "no reason in f32"
grep -q 'bias_grad\|gelu_grad.*one call' full.text && fail "f32 takes more along than a bias"
for plan in short full; do
    build cuda cuda "$here/epilogues.flow" $plan
    [ "$(grep -c 'fl_gemm_epilogue(' cuda/class_0.cu)" = "$(grep -c 'contraction(' $plan.text)" ] || fail "$plan: not all in one call"
    grep -q '\.nbatch = 2' cuda/class_0.cu || fail "$plan: no product over two batch dims"
    run cuda --steps 3 --metrics with.jsonl
    FL_DOUBLE_LT=none run cuda --steps 3 --metrics without.jsonl
    build cpu cpu "$here/epilogues.flow" $plan
    run cpu --steps 3 --metrics cpu.jsonl
    near=1e-5
    [ $plan = full ] || near=1e-2
    for with in with without; do
        paste <(sed 's/.*"loss": \([-+.e0-9]*\).*"grad_norm": \([-+.e0-9]*\).*/\1 \2/' cpu.jsonl) \
              <(sed 's/.*"loss": \([-+.e0-9]*\).*"grad_norm": \([-+.e0-9]*\).*/\1 \2/' $with.jsonl) | awk -v near=$near '
            { for (i = 1; i <= 2; i++) if (($i - $(i + 2)) ^ 2 > (near * $i) ^ 2) { print; bad = 1 } } END { exit bad || NR != 3 }' ||
            fail "$plan, $with epilogues: other numbers"
    done
done
finish
