#!/usr/bin/env bash
# coverage.sh [BUILD]: is every device function of the runtime and of emitted programs executed by the suite? Builds the double
# and what runs on it with --coverage, runs the runtime's own tests and three steps of some plans of the GPT example, and asks
# gcov. What is executed on a GPU alone (the first part of flow_dev.h) is not compiled here and not counted.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(cd "${1:-$root/build}" && pwd)
objects=$build/tests/cuda/coverage
work=$build/tests/cuda/coverage_run
. "$root/scripts/mpi-env.sh"
export COVER="--coverage -O1 -fno-inline" OMP_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=0
unset CCACHE_BASEDIR
rm -rf "$objects" "$work"
make -s -j2 -f "$here/double/double.mk" BUILD="$objects" shared tests
for t in kernels attention types; do FL_DOUBLE_EAGER=1 "$objects/tests/$t" >/dev/null; done
FL_DOUBLE_LT=none FL_DOUBLE_EAGER=1 "$objects/tests/types" >/dev/null            # a library without epilogues
FL_DOUBLE_EAGER=1 mpirun -n 3 --oversubscribe "$objects/tests/collectives" collectives >/dev/null
mkdir -p "$work/mlp"
for plan in single bf16 zero3 dp2_tp2_pp2 deferred; do
    flow=$work/gpt.flow
    of=$plan
    sed 's/^    tokens 400$/    tokens 4/' "$root/examples/gpt/gpt.flow" >"$flow"
    [ "$plan" != deferred ] || { of=pp2; sed -i 's/clip_norm clip$/& deferred/' "$flow"; }
    GPT_FLOW=$flow KEEP=1 "$here/golden.sh" "$build/flowc" "$build/tests/golden/golden_compare" "$objects" "$root/tests/golden/own" \
        "$work/$plan" "$of" 3 1 >/dev/null
    ranks=$(sed -n 's/^RANKS := //p' "$work/$plan/out/Makefile")             # evaluation and a sample too
    mpirun -n "$ranks" --oversubscribe "$work/$plan/out/run.double" --data "$root/tests/golden/own/tokens.bin" \
        --eval-data "$root/tests/golden/own/tokens.bin" --steps 1 --dump '*' -o "$work/dump.safetensors" >/dev/null
done
"$build/flowc" "$root/examples/mlp/mlp.flow" --plan dp2 -o "$work/mlp/out" --target cuda
make -s -f "$here/double/double.mk" PROGRAM="$work/mlp/out" BUILD="$objects"
mpirun -n 2 --oversubscribe "$work/mlp/out/run.double" --selftest >/dev/null
head -c 200000 "$root/tests/golden/own/tokens.bin" >"$work/data"
mpirun -n 2 --oversubscribe "$work/mlp/out/run.double" --data "$work/data" --steps 2 >/dev/null
sed 's/^    tokens 400$/    tokens 4/; s/precision bf16 {/precision f16 { loss_scale 1024;/' "$root/examples/gpt/gpt.flow" >"$work/f16.flow"
mkdir "$work/f16"
"$build/flowc" "$work/f16.flow" --plan bf16 --set V=256 --set T=16 --set D=32 --set H=2 --set L=2 --set N=4 --set M=2 -o "$work/f16/out" --target cuda
make -s -f "$here/double/double.mk" PROGRAM="$work/f16/out" BUILD="$objects"
mpirun -n 2 --oversubscribe "$work/f16/out/run.double" --data "$root/tests/golden/own/tokens.bin" \
    --eval-data "$root/tests/golden/own/tokens.bin" --steps 1 --dump '*' -o "$work/dump.safetensors" >/dev/null
# functions that ran
for data in "$objects"/cuda/*.gcda "$work"/*/out/class_*.gcda; do gcov -j -t -m "$data" 2>/dev/null; done | tr '{' '\n' |
    sed -n 's/.*"execution_count": [1-9][0-9]*, "demangled_name": "\([^"]*\).*/\1/p' | sed 's/[<(].*//; s/.* //' | sort -u >"$work/ran"
# device functions: name before the first parenthesis that follows __global__, __device__ or FL_KERNEL
sources=$(ls "$root"/runtime/cuda/*.cu "$root"/runtime/cuda/walk.h "$work"/*/out/class_*.cu)
sed '1,/from here on the same text/d' "$root/runtime/cuda/flow_dev.h" | cat - $sources | tr '\n' ' ' |
    grep -oE '(__global__ void|__device__( __forceinline__)?|FL_KERNEL) [A-Za-z_0-9<> ]*\(' |
    sed -E 's/<[A-Za-z_0-9]*>\(/(/; s/.*[ *]([A-Za-z_0-9]+)\($/\1/' | grep -v -e '^operator' | sort -u >"$work/device"
missing=$(comm -23 "$work/device" "$work/ran")
echo "$(comm -12 "$work/device" "$work/ran" | wc -l) of $(wc -l <"$work/device") device functions executed"
[ -z "$missing" ] || { echo "not executed: $missing" | tr '\n' ' '; exit 1; }
rm -rf "$work" "$objects"
