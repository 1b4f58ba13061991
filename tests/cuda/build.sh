#!/usr/bin/env bash
# build.sh FLOWC FILE PLAN WORK OBJECTS [fill]: an emitted cuda program compiles and links with nvcc without a
# warning, does not need a driver to start, and says so in one line where there is no GPU. The runtime's objects are the
# same for every program: they are taken from OBJECTS; `fill` puts them there, and looks at what ptxas says about spills. Its C
# is that of the cpu target, which is built at -O3: here it only has to link.
set -eu
. "$(dirname "$0")/../../scripts/mpi-env.sh"
flowc=$1 file=$2 plan=$3 work=$4 objects=$5 fill=${6:-}
fail() { echo "$plan: $*"; exit 1; }
rm -rf "$work"
mkdir -p "$work" "$objects"
"$flowc" "$file" --plan "$plan" -o "$work/out" --target cuda
ranks=$(sed -n 's/^RANKS := //p' "$work/out/Makefile")
if [ -z "$fill" ]; then
    for o in "$objects"/*.o; do cp "$o" "$work/out/runtime/"; done
    for o in "$objects"/cuda/*.o; do cp "$o" "$work/out/runtime/cuda/"; done
fi
make -C "$work/out" -j2 CFLAGS=-O1 EXTRA="-Xptxas -v" >"$work/log" 2>&1 || { grep -v ptxas "$work/log"; fail "make failed"; }
grep -v ptxas "$work/log" | grep -i warning && fail "nvcc warns"
spills=$(grep -E '[1-9][0-9]* bytes spill' "$work/log" | sort -u || true)
[ -z "$spills" ] || fail "registers are spilled to memory: $spills"
grep -E '^class_[0-9]+: ' "$work/log" || fail "no build time of a class"
if readelf -d "$work/out/run" | grep -q 'NEEDED.*libcuda\.so'; then fail "linked with the driver"; fi
if ! nvidia-smi >/dev/null 2>&1; then
    code=0
    mpirun -n "$ranks" --oversubscribe "$work/out/run" >"$work/said" 2>&1 || code=$?
    [ "$code" = 3 ] || { cat "$work/said"; fail "exit code $code without a GPU, not that of a refusal"; }
    [ "$(grep -c '^flow:' "$work/said")" = 1 ] || { cat "$work/said"; fail "not one line"; }
    grep '^flow: no CUDA device here' "$work/said" | grep -q -- '--target cpu' || { cat "$work/said"; fail "an unclear line"; }
    # the library that stands in for a driver on build machines gives another error
    stubs=/usr/local/cuda/lib64/stubs
    if [ -e "$stubs/libcuda.so" ]; then
        ln -sf "$stubs/libcuda.so" "$work/libcuda.so.1"
        mpirun -n 1 -x LD_LIBRARY_PATH="$work:${LD_LIBRARY_PATH:-}" "$work/out/run" >"$work/said" 2>&1 && fail "exit code 0"
        grep -q '^flow: ' "$work/said" || { cat "$work/said"; fail "no line with the stub library"; }
    fi
fi
if [ -n "$fill" ]; then
    mkdir -p "$objects/cuda"
    cp "$work"/out/runtime/*.o "$objects/"
    cp "$work"/out/runtime/cuda/*.o "$objects/cuda/"
    make -C "$work/out" CFLAGS=-O1 ranks >"$work/log" 2>&1 || { cat "$work/log"; fail "make ranks failed"; }
    [ "$(wc -l <"$work/out/ranks/app")" = "$ranks" ] || fail "ranks/app does not list $ranks ranks"
    [ -x "$work/out/ranks/rank_0000" ] || fail "no binary of rank 0"
fi
# without nvcc: what is missing, and what to do
if make -C "$work/out" -B NVCC=/nowhere/nvcc >"$work/said" 2>&1; then fail "make without nvcc succeeds"; fi
grep -q 'nvcc is missing.*--target cpu' "$work/said" || { cat "$work/said"; fail "make without nvcc is unclear"; }
# without NCCL: a compiler that does not find it; nor is another fault of the compiler taken for that
printf '#!/bin/sh\n! grep -q nccl.h\n' >"$work/none" && chmod +x "$work/none"
if make -C "$work/out" -B NVCC="$work/none" >"$work/said" 2>&1; then fail "make without NCCL succeeds"; fi
grep -q 'NCCL is missing.*libnccl-dev' "$work/said" || { cat "$work/said"; fail "make without NCCL is unclear"; }
printf '#!/bin/sh\necho "unsupported host compiler" >&2\nexit 1\n' >"$work/none"
if make -C "$work/out" -B NVCC="$work/none" >"$work/said" 2>&1; then fail "make with a broken nvcc succeeds"; fi
grep -q 'cannot compile.*CXX_OF_NVCC=g++.*unsupported host compiler' "$work/said" || { cat "$work/said"; fail "a broken nvcc is unclear"; }
if grep NCCL "$work/said"; then fail "a broken nvcc is taken for missing NCCL"; fi
rm -rf "$work"
