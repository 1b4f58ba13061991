#!/usr/bin/env bash
# products.sh [--model tiny|small|gpt2]... [LIBRARY.so]...: GFLOP/s of one thread at the shapes of the products of a model's step: the
# cpu target's own kernels, in f32 and bf16, and in turn with them OpenBLAS, BLIS and oneDNN where they are installed, or the libraries
# named, any that has cblas_sgemm or dnnl_sgemm. The tests' build folder ($BUILD, default build) has libflow_cpu.a.
set -eu
cd "$(dirname "$0")/.."
. bench/common.sh
models=()
while [ $# -gt 1 ] && [ "$1" = --model ]; do models+=("$2"); shift 2; done
[ ${#models[@]} -gt 0 ] || models=(small)
case ${1:-} in -*) sed -n '2,4s/^# //p' bench/products.sh; exit 2 ;; esac
[ $# -gt 0 ] || set -- libopenblas.so.0 libblis.so.4 libdnnl.so.2
built flowc
[ -n "$runtime" ] || { echo "bench/products.sh: $build has no libflow_cpu.a: build the tests' part too"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mpicc -std=gnu11 -O2 -Wall -Wextra -Werror -Iruntime -Iruntime/cpu bench/products.c "$runtime" -o "$work/products" -fopenmp -ljansson -lm \
    -lpthread -ldl
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 BLIS_NUM_THREADS=1
for model in "${models[@]}"; do
    size "$model"
    echo "$model, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)"
    "$work/products" $D $((4 * D)) $V $((4 * T)) $T $((D / H)) "$@"
done
