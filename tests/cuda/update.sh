#!/usr/bin/env bash
# update.sh FLOWC COMPARE DOUBLE GOLDEN WORK: the launches of an update. Where it does not wait for the norm, squares and updates of
# all parameters are one launch, and the norm is that of the cpu target; gradients of 16 bits are read as they are.
set -eu
flowc=$1 compare=$2 double=$3 golden=$4 work=$5
export FL_DOUBLE_SEED=2
. "$(dirname "$0")/../program.sh"
gpt=$tests/../examples/gpt/gpt.flow sizes=$(cat "$golden/sizes")
# launches NAME: groups of gathered calls in the update of its program, as "square_sum", "adamw", "adamw_redo" or several with "+"
launches() {
    sed -n '/^static void train_update/,/^}/p' "$1/class_0.cu" | awk '
        match($0, /fl_(square_sum|adamw_redo|adamw)\(/) { name = substr($0, RSTART + 3, RLENGTH - 4)
            if (!(("+" have "+") ~ ("[+]" name "[+]"))) have = have (have ? "+" : "") name }
        /fl_gathered\(\)/ { printf "%s%s", said ? " " : "", have; said = 1; have = "" }
        END { if (have) printf "%s%s", said ? " " : "", have; print "" }'
}

cp "$gpt" clip.flow
sed 's/clip_norm clip$/& deferred/' "$gpt" >deferred.flow
sed '/^ *clip_norm clip$/d' "$gpt" >free.flow
for of in 'clip:square_sum adamw' 'deferred:adamw+square_sum adamw_redo' 'free:square_sum+adamw'; do
    name=${of%%:*}
    compile $name cuda $name.flow single $sizes
    [ "$(launches $name)" = "${of#*:}" ] || fail "$name: $(launches $name)"
done
for target in cuda cpu; do
    build $target $target free.flow single $sizes
    run $target --load "$golden/init.safetensors" --data "$golden/tokens.bin" --steps 3 --metrics $target.m
    sed 's/.*"loss": \([-+.e0-9]*\).*"grad_norm": \([-+.e0-9]*\).*/\1 \2/' $target.m >$target.numbers
done
paste cuda.numbers cpu.numbers | awk '
    { for (i = 1; i <= 2; i++) if ($i <= 0 || ($i - $(i + 2)) ^ 2 > (1e-6 * $i) ^ 2) { print; bad = 1 } } END { exit bad || NR != 3 }' ||
    fail "another norm"

sed 's/grads f32/grads bf16/' "$gpt" >short.flow
for target in cpu cuda; do
    compile short_$target $target short.flow bf16 $sizes
    sed -n '/^static void train_update/,/^}/p' short_$target/class_0.c* >update
    grep -q 'fl_adamw(.*FL_BF16' update || fail "$target: gradients are not read as they are"
    grep 'fl_\(adamw\|square_sum\)(.*(float \*)(arena' update && fail "$target: gradients are copied"
done
grep -q 'FL_VECTORS1(8' short_cuda/class_0.cu && grep -q 'FL_VECTORS2(8' short_cuda/class_0.cu ||
    fail "no 16 bytes at a time in emitted kernels"
cd "$start"
GPT_FLOW=$work/short.flow "$tests/cuda/golden.sh" "$flowc" "$compare" "$double" "$golden" "$work/short" bf16 3 1 || fail "bf16 gradients"
finish
