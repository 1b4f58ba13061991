#!/usr/bin/env bash
# selftest.sh FLOWC BUILD WORK TARGET: `run --selftest` of a program on two ranks finds nothing wrong, on the cpu or, as a cuda
# program, on the test double.
set -eu
flowc=$1 build=$2 work=$3 target=$4
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../scripts/mpi-env.sh"
rm -rf "$work"
mkdir -p "$work"
"$flowc" "$here/../../examples/mlp/mlp.flow" --plan dp2 -o "$work/out" --target "$target"
if [ "$target" = cuda ]; then
    make -s -f "$here/double/double.mk" PROGRAM="$work/out" BUILD="$build"
    program=$work/out/run.double
else
    make -s -C "$work/out" ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
    program=$work/out/run
fi
export ASAN_OPTIONS=detect_leaks=0 OMP_NUM_THREADS=1
mpirun -n 2 --oversubscribe "$program" --selftest >"$work/said" || { grep -v ': ok$' "$work/said"; exit 1; }
tail -n 1 "$work/said"
[ "$(grep -c ': ok$' "$work/said")" -ge 90 ] || { echo "too few checks"; exit 1; }
if [ "$target" = cuda ]; then
    for primitive in shuffle barrier 'matrix load' 'matrix of bf16' 'matrix of f16'; do
        grep -q "$primitive .*: ok$" "$work/said" || { echo "$primitive was not tried"; exit 1; }
    done
    rm -rf "$work"
    exit
fi
# A weight on the first and the last of four stages: those between are outside its communicator.
"$flowc" "$here/../../examples/gpt/gpt.flow" --plan pp4 $(cat "$here/../golden/own/sizes") -o "$work/pp" --target cpu
make -s -C "$work/pp" ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
mpirun -n 4 --oversubscribe "$work/pp/run" --selftest >"$work/said" || { grep -v ': ok$' "$work/said"; exit 1; }
grep -q 'all_reduce stages_0_3 .*: ok$' "$work/said" || { echo "no communicator was tried"; exit 1; }
rm -rf "$work"
