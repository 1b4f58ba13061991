#!/usr/bin/env bash
# bench/selftest.sh [--gpus N] [--steps N]: is the cuda target right on the GPUs of this machine? For plans of the GPT example
# that N ranks run (default: all GPUs, at most 4): builds the program, `run --selftest` (device primitives and kernels against
# float64, collectives against what they must give), then the golden run of 20 steps from the same weights and data, in f32
# and bf16. One line for each; exit code 1 if any is wrong. DOUBLE=DIR: on the test double instead, its objects in DIR.
set -eu
cd "$(dirname "$0")/.."
gpus= steps=20
. bench/common.sh
options 2,5 "gpus steps" "$@"
if [ -z "${DOUBLE:-}" ]; then
    present=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | grep -c . || true)
    [ "$present" -gt 0 ] || { echo "selftest: no GPU here; run this on a machine with one (bench/README.md)"; exit 1; }
    [ -n "$gpus" ] || gpus=$(gpus_here "$present")
fi
case ${gpus:=1} in
1) plans="single" ;;
2) plans="bf16 dp2 tp2 pp2 sp2 cp2 zero3" ;;
4) plans="dp4 dp2_tp2 dp2_pp2 tp2_pp2 pp4" ;;
*) echo "selftest: --gpus 1, 2 or 4"; exit 2 ;;
esac
built flowc tests/golden/golden_compare
golden=tests/golden/own
failed=0
for plan in $plans; do
    dir=$build/selftest/$plan
    rm -rf "$dir"
    mkdir -p "$dir"
    "$build/flowc" examples/gpt/gpt.flow --plan "$plan" --target cuda $(cat $golden/sizes) -o "$dir/out"
    ranks=$(sed -n 's/^RANKS := //p' "$dir/out/Makefile")
    if [ "$ranks" != "$gpus" ]; then                 # a plan of the list that has other ranks now
        echo "$plan: WRONG: it has $ranks ranks"
        failed=1
        continue
    fi
    if [ -n "${DOUBLE:-}" ]; then
        make -s -f tests/cuda/double/double.mk PROGRAM="$(realpath "$dir/out")" BUILD="$DOUBLE"
        mv "$dir/out/run.double" "$dir/out/run"
    else
        make -s -C "$dir/out" -j "$(nproc)" ARCH="-arch native" >"$dir/make" 2>&1 || { cat "$dir/make"; exit 1; }
    fi
    of=right
    mpirun -n "$ranks" --oversubscribe "$dir/out/run" --selftest >"$dir/said" 2>&1 || { of=WRONG failed=1; grep -v ': ok$' "$dir/said"; }
    echo "$plan: self-test $of, $(grep -c ': ok$' "$dir/said") checks"
    rounded= weights=
    [ "$plan" = bf16 ] && rounded=--rounded
    [ "$steps" = 20 ] && weights="$golden/final.safetensors $dir/weights.safetensors"
    of=right
    { mpirun -n "$ranks" --oversubscribe "$dir/out/run" --load $golden/init.safetensors --data $golden/tokens.bin --steps "$steps" \
        --metrics "$dir/m.jsonl" --export "$dir/weights.safetensors" --quiet &&
        "$build/tests/golden/golden_compare" $rounded --steps "$steps" $golden/run.json "$dir/m.jsonl" $weights; } >"$dir/said" 2>&1 ||
        { of=WRONG failed=1; cat "$dir/said"; }
    echo "$plan: golden run of $steps steps $of: $(tail -n 1 "$dir/said")"
done
rm -rf "$build/selftest"
exit $failed
