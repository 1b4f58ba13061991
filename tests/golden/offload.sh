#!/usr/bin/env bash
# offload.sh FLOWC COMPARE GOLDEN WORK: what lies in host memory changes no bit of the golden run, comes back from a
# checkpoint, and is really moved: the arena is smaller by what is on the host, and the program copies it.
set -eu
flowc=$1 compare=$2 golden=$3 work=$4
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../scripts/mpi-env.sh"
rm -rf "$work"
mkdir -p "$work"
cat "$here/../../examples/gpt/gpt.flow" "$here/offload_plans.flow" >"$work/gpt.flow"
export OMP_NUM_THREADS=1
numbers() {
    sed 's/.*"step": *\([0-9]*\).*"loss": *\([^,}]*\).*"grad_norm": *\([^,}]*\).*/\1 \2 \3/' "$1"
}
train() {                                                  # PLAN RANKS NAME arguments..
    local plan=$1 ranks=$2 name=$3
    shift 3
    mpirun -n "$ranks" --oversubscribe "$work/$plan/run" --data "$golden/tokens.bin" --quiet --metrics "$work/$name.jsonl" \
        --export "$work/$name.safetensors" "$@"
}
compiled() {                                               # PLAN RANKS
    "$flowc" "$work/gpt.flow" --plan "$1" $(cat "$golden/sizes") --set M=4 -o "$work/$1" --target cpu --verify
    make -s -C "$work/$1" -j2 ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
    train "$1" "$2" "$1" --load "$golden/init.safetensors" --steps 20
}
same() {                                                   # PLAN PLAN
    cmp <(numbers "$work/$1.jsonl") <(numbers "$work/$2.jsonl")
    cmp "$work/$1.safetensors" "$work/$2.safetensors"
}
figure() {                                                 # PLAN LINE: bytes in the head of the memory report; nothing: no such line
    "$flowc" "$work/gpt.flow" --plan "$1" $(cat "$golden/sizes") --set M=4 --target cpu --emit=memory |
        sed -n "s/^    $2  *\([0-9][0-9]*\)\(  (.*)\)*\$/\1/p"
}

compiled plain 1
"$compare" "$golden/run.json" "$work/plain.jsonl" "$golden/final.safetensors" "$work/plain.safetensors"
for plan in optimizer activations parameters; do
    compiled "$plan" 1
    same plain "$plan"
    grep -q 'fl_to_host(run, [0-9]*, .*// .*gpt.flow:[0-9]' "$work/$plan/class_0.c"
    grep -q 'fl_to_device(run, [0-9]*, .*// .*gpt.flow:[0-9]' "$work/$plan/class_0.c"
done
compiled plain_tp2 2
compiled all_tp2 2
same plain_tp2 all_tp2
compiled plain_pp2_dp2 4
compiled all_pp2_dp2 4
same plain_pp2_dp2 all_pp2_dp2

# What was a class of the arena is host memory, to the byte; the optimizer's place in the arena is one parameter's.
for pair in optimizer:"optimizer state" parameters:parameters activations:"saved activations"; do
    plan=${pair%%:*} class=${pair#*:}
    moved=$(figure plain "$class") host=$(figure "$plan" "host memory")
    [ "$moved" -gt 0 ] && [ -z "$(figure "$plan" "$class")" ] || { echo "$plan: $class is still on the device"; exit 1; }
    [ "$host" -ge "$moved" ] && [ "$host" -le $((moved + moved / 10 + 4096)) ] || { echo "$plan: $moved moved, $host on the host"; exit 1; }
    [ $(($(figure plain arena) - $(figure "$plan" arena))) -gt 0 ] || { echo "$plan: no smaller arena"; exit 1; }
done

# A checkpoint from host memory goes on without, and the other way round.
train optimizer 1 first --load "$golden/init.safetensors" --steps 10 --save "$work/checkpoint"
train plain 1 rest --resume "$work/checkpoint" --steps 20
cmp "$work/plain.safetensors" "$work/rest.safetensors"
train plain_tp2 2 second --load "$golden/init.safetensors" --steps 10 --save "$work/checkpoint2"
train all_tp2 2 rest2 --resume "$work/checkpoint2" --steps 20
cmp "$work/plain_tp2.safetensors" "$work/rest2.safetensors"
rm -rf "$work"
