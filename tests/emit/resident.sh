#!/usr/bin/env bash
# resident.sh FLOWC PROGRAM WORK: what a rank has resident, less what is so for MPI, libc and meeting other ranks, is within
# 5 % of the plan's figure, or 1 MB: from plans of 10 MB to those of 200, with links, tensors in host memory, and in 16 bits.
# Nor does any kernel take memory that the plan does not know of (FL_STRICT_ROOM), but for rows of a thread.
set -eu
. "$(dirname "$0")/../../scripts/mpi-env.sh"
flowc=$1 program=$2 work=$3
rm -rf "$work"
mkdir -p "$work"
cd "$work"
head -c 200000 /dev/zero >data.bin
export OMP_NUM_THREADS=1 FL_STRICT_ROOM=1
cp "$program" program.flow
cat >>program.flow <<'END'
plan again { mesh m = [dp: 2]; microbatches M over N; sbp tokens, targets = {dp: S(N)}
             shard parameters over dp; prefetch 1; recompute h[*] }
plan zb { mesh m = [pp: 2, dp: 2]; microbatches 4 over N; sbp tokens, targets = {dp: S(N)}
          pipeline over pp { schedule = zb_h2; split h }; shard gradients over dp }
plan host { mesh m = [tp: 2]; microbatches M over N; sbp h[*].mlp.up_weight = {tp: S(F)}; sbp wte.weight = {tp: S(V)}
            offload optimizer, activations to host }
END
try() {                                                    # PLAN RANKS LEAST MOST (MB) --set ..
    plan=$1 ranks=$2 least=$3 most=$4
    shift 4
    "$flowc" program.flow --plan "$plan" "$@" --target cpu --emit=memory,json >memory.json 2>messages
    # of the first stage, whose rank 0 writes the metrics
    plan_bytes=$(awk '/"stage":/ && stages++ { exit }
                      /"(arena|host|link|packing)_bytes"/ { gsub(/[^0-9]/, ""); sum += $0 }
                      END { printf "%.0f", sum }' memory.json)
    [ "$plan_bytes" -ge $((least * 1000000)) ] && [ "$plan_bytes" -le $((most * 1000000)) ] ||
        { echo "$plan: $plan_bytes is not $least to $most MB"; exit 1; }
    "$flowc" program.flow --plan "$plan" "$@" --target cpu -o out 2>messages
    make -s -C out ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
    mpirun -n "$ranks" --oversubscribe out/run --data data.bin --steps 2 --metrics m.jsonl --quiet
    held() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" m.jsonl | tail -1; }
    own=$(($(held resident_bytes) - $(held library_bytes))) slack=$((plan_bytes / 20))
    [ $slack -ge 1000000 ] || slack=1000000
    echo "$plan: plan $plan_bytes, resident $own, library $(held library_bytes)"
    [ $own -ge $((plan_bytes - slack)) ] && [ $own -le $((plan_bytes + slack)) ] || { echo "$plan: too far off"; exit 1; }
    more=$(($(held peak_bytes) - plan_bytes))
    [ $more -ge 0 ] && [ $more -le 600000 ] || { echo "$plan: kernels took $more bytes beside the plan"; exit 1; }
    rm -r out m.jsonl
}
small="--set L=4 --set N=16 --set T=64 --set M=2"
try zero3 4 8 20 --set D=128 $small
try tp2 2 15 40 --set D=128 $small
try zb 4 20 60 --set D=192 $small
try again 2 30 60 --set D=256 $small
try host 2 30 80 --set D=192 $small
try bf16 2 30 80 --set D=256 $small
try dp2 2 150 250 --set D=512 --set L=4 --set N=8 --set T=64 --set M=2
try single 1 200 300 --set D=512 --set L=4 --set N=8 --set T=64 --set M=2
