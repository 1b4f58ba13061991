#!/usr/bin/env bash
# trace.sh FLOWC CHECK WORK TARGET DOUBLE: the file of --trace is well-formed, has the steps that were asked for, compute and
# communication with their lines, and clocks that fit; the numbers of the run do not change.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../scripts/mpi-env.sh"
flowc=$1 check=$2 work=$3 target=$4 double=$5
rm -rf "$work"
mkdir -p "$work"
cd "$work"
export OMP_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=0
fail() { echo "FAILED: $*" >&2; exit 1; }
cat "$here"/*.sh "$here"/*.c >text
run() { # name, further arguments
    if [ $target = cuda ]; then program=$1/run.double; else program=$1/run; fi
    mpirun -n 2 --oversubscribe $program --data text.bin --quiet "${@:2}" 2>log || { cat log; fail "$*"; }
}
make_program() { # plan
    "$flowc" "$here/../../examples/gpt/gpt.flow" --plan "$1" --set V=256 --set T=16 --set D=32 --set H=4 --set L=2 --set N=8 --set M=2 \
        -o "$1" --target $target
    if [ $target = cuda ]; then make -s -f "$here/../cuda/double/double.mk" PROGRAM="$work/$1" BUILD="$double"
    else make -s -C "$1" ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}; fi
}
perl -0777 -ne 'print pack "v*", unpack "C*", $_' text >text.bin
make_program tp2
run tp2 --steps 7 --trace tp2.json --export traced.safetensors
"$check" tp2.json 2 3 5 'all_reduce(tp) h[*].attn.einsum@2' || fail "tp2"
"$check" tp2.json 2 3 5 'all_reduce(tp) h[*].attn.einsum@2' 2000000 2>/dev/null && fail "two seconds between the clocks are not noticed"
run tp2 --steps 7 --export plain.safetensors
cmp traced.safetensors plain.safetensors || fail "a traced run has other numbers"
[ ! -e tp2.json.part ] || fail "something is left"
[ $target = cuda ] || {
    run tp2 --steps 2 --trace short.json --trace-steps 5
    "$check" short.json 2 1 2 'all_reduce(tp) h[*].attn.einsum@2' || fail "a short run"
    make_program pp2
    run pp2 --steps 4 --trace pp2.json --trace-steps 1
    "$check" pp2.json 2 3 3 nothing 2>err && fail "a collective that is not there"
    grep -q 'no such collective' err || fail "pp2: $(cat err)"
    grep -q '"send(to stage 1)\|"recv(from stage 0)' pp2.json || fail "no links in the trace of a pipeline"
}
[ $target = cpu ] || grep -q '"cat": "wait"' tp2.json || fail "nothing of what the device waits for"
echo ok
