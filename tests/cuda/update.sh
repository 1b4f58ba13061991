#!/usr/bin/env bash
# update.sh FLOWC COMPARE BUILD GOLDEN WORK: the launches of an update. Where it does not wait for the norm, squares and updates of
# all parameters are one launch, and the norm is that of the cpu target; gradients of 16 bits are read as they are. Objects of the
# double are in BUILD.
set -eu
flowc=$1 compare=$2 build=$3 golden=$4 work=$5
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../scripts/mpi-env.sh"
rm -rf "$work"
mkdir -p "$work"
export OMP_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=0
fail() { echo "FAILED: $*" >&2; exit 1; }
gpt=$here/../../examples/gpt/gpt.flow
# launches NAME: groups of gathered calls in the update of its program, as "square_sum", "adamw", "adamw_redo" or several with "+"
launches() {
    sed -n '/^static void train_update/,/^}/p' "$work/$1/class_0.cu" | awk '
        match($0, /fl_(square_sum|adamw_redo|adamw)\(/) { name = substr($0, RSTART + 3, RLENGTH - 4)
            if (!(("+" have "+") ~ ("[+]" name "[+]"))) have = have (have ? "+" : "") name }
        /fl_gathered\(\)/ { printf "%s%s", said ? " " : "", have; said = 1; have = "" }
        END { if (have) printf "%s%s", said ? " " : "", have; print "" }'
}
compiled() { "$flowc" "$work/$1.flow" --plan "$2" $(cat "$golden/sizes") --target "$3" -o "$work/$4" 2>"$work/said" || { cat "$work/said"; fail "$1"; }; }

cp "$gpt" "$work/clip.flow"
sed 's/clip_norm clip$/& deferred/' "$gpt" >"$work/deferred.flow"
sed '/^ *clip_norm clip$/d' "$gpt" >"$work/free.flow"
for of in 'clip:square_sum adamw' 'deferred:adamw+square_sum adamw_redo' 'free:square_sum+adamw'; do
    name=${of%%:*}
    compiled $name single cuda $name
    [ "$(launches $name)" = "${of#*:}" ] || fail "$name: $(launches $name)"
done
make -s -f "$here/double/double.mk" PROGRAM="$work/free" BUILD="$build"
compiled free single cpu cpu
make -s -C "$work/cpu" ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
for program in free/run.double cpu/run; do
    FL_DOUBLE_SEED=2 "$work/$program" --load "$golden/init.safetensors" --data "$golden/tokens.bin" --steps 3 --metrics "$work/m" --quiet
    sed 's/.*"loss": \([-+.e0-9]*\).*"grad_norm": \([-+.e0-9]*\).*/\1 \2/' "$work/m" >"$work/$(dirname $program).numbers"
done
paste "$work/free.numbers" "$work/cpu.numbers" | awk '
    { for (i = 1; i <= 2; i++) if ($i <= 0 || ($i - $(i + 2)) ^ 2 > (1e-6 * $i) ^ 2) { print; bad = 1 } } END { exit bad || NR != 3 }' ||
    fail "another norm"

sed 's/grads f32/grads bf16/' "$gpt" >"$work/short.flow"
for target in cpu cuda; do
    compiled short bf16 $target short_$target
    sed -n '/^static void train_update/,/^}/p' "$work/short_$target"/class_0.c* >"$work/text"
    grep -q 'fl_adamw(.*FL_BF16' "$work/text" || fail "$target: gradients are not read as they are"
    grep 'fl_\(adamw\|square_sum\)(.*(float \*)(arena' "$work/text" && fail "$target: gradients are copied"
done
grep -q 'FL_VECTORS1(8' "$work/short_cuda/class_0.cu" && grep -q 'FL_VECTORS2(8' "$work/short_cuda/class_0.cu" ||
    fail "no 16 bytes at a time in emitted kernels"
GPT_FLOW=$work/short.flow "$here/golden.sh" "$flowc" "$compare" "$build" "$golden" "$work/short" bf16 3 1 || fail "bf16 gradients"
rm -rf "$work"
echo ok
