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
    # hosts that lack devices: one line, of the rank that sees it, and no waiting for the others
    lacks() { # WORDS, devices of rank 0, devices of rank 1
        local status=0
        timeout 60 mpirun --oversubscribe -n 1 -x FL_DOUBLE_DEVICES="$2" "$program" --quiet : -n 1 -x FL_DOUBLE_DEVICES="$3" "$program" \
            --quiet >"$work/said" 2>&1 || status=$?
        [ $status = 3 ] && [ "$(grep -c '^flow: ' "$work/said")" = 1 ] && grep -q "^flow: $1" "$work/said" ||
            { cat "$work/said"; echo "$2 and $3 devices: exit code $status"; exit 1; }
    }
    lacks "no CUDA device here (rank 1 on .*); run on a machine with a GPU, or compile with --target cpu" 2 0
    lacks "2 ranks on .* but 1 CUDA device; start one rank per device" 2 1
    rm -rf "$work"
    exit
fi
# A weight on the first and the last of four stages: those between are outside its communicator.
"$flowc" "$here/../../examples/gpt/gpt.flow" --plan pp4 $(cat "$here/../golden/own/sizes") -o "$work/pp" --target cpu
make -s -C "$work/pp" ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
mpirun -n 4 --oversubscribe "$work/pp/run" --selftest >"$work/said" || { grep -v ': ok$' "$work/said"; exit 1; }
grep -q 'all_reduce stages_0_3 .*: ok$' "$work/said" || { echo "no communicator was tried"; exit 1; }
rm -rf "$work"
