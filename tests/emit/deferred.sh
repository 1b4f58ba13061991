#!/usr/bin/env bash
# deferred.sh FLOWC FILE.flow WORK PLAN:RANKS:OPTIMIZER:C...: `clip_norm c deferred` gives the bits of `clip_norm c`: loss, norm, weights
# and optimizer states, whether it always clips (c = 0.01), never (c = 1000) or in some of the ten steps (c = 1).
set -eu
. "$(dirname "$0")/../../scripts/mpi-env.sh"
flowc=$1 flow=$2 work=$3
shift 3
rm -rf "$work"
mkdir -p "$work"
cd "$work"
export OMP_NUM_THREADS=1
for i in $(seq 0 299); do printf '%b' "\\x$(printf %02x $(((i * i * 7 + i) % 61)))\\x00"; done >tokens.bin
train() { # name ranks: loss and norm of all steps, weights and states
    make -s -C "$1" -j2 ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
    mpirun -n "$2" --oversubscribe "$1/run" --quiet --steps 10 --metrics "$1.jsonl" --save "$1.ck"
    sed -n 's/.*\("step": *[0-9]*\),.*\("loss": *[-+.e0-9]*\),.*\("grad_norm": *[-+.e0-9]*\).*/\1 \2 \3/p' "$1.jsonl" >"$1.txt"
    [ "$(wc -l <"$1.txt")" = 10 ] || { echo "$1: not ten steps"; exit 1; }
}
for at; do
    IFS=: read -r plan ranks optimizer c <<<"$at"
    for how in now late; do
        word=; [ $how = now ] || word=" deferred"
        sed "s/clip_norm .*/clip_norm $c$word/; s/steps 6/steps 10/; s/optimizer adamw.*/optimizer $optimizer { lr = 1e-2 }/" \
            "$flow" >m.flow
        cat >>m.flow <<'END'
plan short {
    mesh m = [dp: 2, tp: 2]
    microbatches 2 over N
    sbp tokens, targets = {dp: S(N)}
    sbp wte.weight = {tp: S(V)}
    recompute h[*]
    precision bf16 { master f32; grads f32; reduce f32 }
}
END
        sed -i 's/sgd { lr = 1e-2 }/sgd { lr = 1e-1; momentum = 0.9 }/' m.flow
        rm -rf $how $how.ck
        "$flowc" m.flow --plan "$plan" --target cpu -o $how
        train $how "$ranks"
    done
    cmp now.txt late.txt || { echo "$at: loss or norm differ"; exit 1; }
    cat now.ck/step_000010/tensors-* >now.tensors
    cat late.ck/step_000010/tensors-* >late.tensors
    cmp now.tensors late.tensors || { echo "$at: weights or states differ"; exit 1; }
    over=$(awk -v c="$c" '{ sub(".*: *", ""); n += $0 > c } END { print n + 0 }' late.txt)
    cp late.tensors "$plan-$optimizer-$c.safetensors"
    echo "$at: $over of 10 steps clipped"
    case $c:$over in 0.01:10 | 1000:0 | 1.0:[1-9]) ;; *) echo "$at: not what the test is for"; exit 1 ;; esac
done
if cmp -s one-adamw-0.01.safetensors one-adamw-1000.safetensors; then
    echo "a factor changes nothing"
    exit 1
fi
rm -rf "$work"
