#!/usr/bin/env bash
# golden_all.sh [BUILD [SEEDS [PLAN...]]]: the golden run of 20 steps through the emitted cuda program on the test double,
# for every plan of the GPT example, under several orders of threads and streams (default: 5 seeds); the results of all
# seeds must be the same bits. Run from anywhere after a build in BUILD (default: build). GOLDEN=DIR: another reference.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(cd "${1:-$root/build}" && pwd)
seeds=${2:-5}
shift $(($# < 2 ? $# : 2))
golden=$root/tests/golden/own
reference=$(sed -n 's/^FLOWC_REFERENCE:PATH=//p' "$build/CMakeCache.txt")/golden/gpt2-tiny
[ -d "$reference" ] && golden=$reference
golden=${GOLDEN:-$golden}
plans=$(sed -n 's/^plan \([a-z0-9_]*\).*/\1/p' "$root/examples/gpt/gpt.flow")
[ $# = 0 ] || plans=$*
. "$root/scripts/mpi-env.sh"
export OMP_NUM_THREADS=1
objects=$build/tests/cuda/double
make -s -j2 -f "$here/double/double.mk" BUILD="$objects" shared
for plan in $plans; do
    first=
    work=$build/tests/cuda/all_$plan
    for seed in $(seq "$seeds"); do
        said=$(KEEP=1 REUSE=${first:+1} "$here/golden.sh" "$build/flowc" "$build/tests/golden/golden_compare" "$objects" "$golden" "$work" \
            "$plan" 20 "$seed" --set M=2 2>&1) || { echo "$said"; echo "$plan, seed $seed: failed"; exit 1; }
        bits=$(sha256sum <"$work/f.safetensors")
        echo "$plan, seed $seed: $(echo "$said" | tail -n 1)"
        [ -z "$first" ] || [ "$first" = "$bits" ] || { echo "$plan: seed $seed gives other bits than seed 1"; exit 1; }
        first=$bits
    done
    rm -rf "$work"
done
