#!/usr/bin/env bash
# meet.sh [BUILD [RANKS]]: what each collective of the cpu target takes between ranks of one host, over MPI and in the memory that
# they share, in turn in one run. BUILD has libflow_cpu.a.
set -eu
cd "$(dirname "$0")/.."
. scripts/mpi-env.sh
build=${1:-build} ranks=${2:-2}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mpicc -std=gnu11 -O2 -Wall -Wextra -Werror -Iruntime -Iruntime/cpu bench/meet.c "$build/libflow_cpu.a" -o "$work/meet" -fopenmp -ljansson -lm -lpthread
OMP_NUM_THREADS=1 mpirun --oversubscribe -n "$ranks" "$work/meet"
