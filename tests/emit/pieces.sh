#!/usr/bin/env bash
# pieces.sh FLOWC WORK: a repeat in pieces against the same program whole. Lines that change no layout change no bit of the
# checkpoint; what one plan saved, the other resumes and loads.
set -eu
. "$(dirname "$0")/../../scripts/mpi-env.sh"
flowc=$1 work=$2 here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
cd "$work"
awk 'BEGIN { for (i = 0; i < 3000; i++) printf "%c%c", (i * i + 7 * i) % 11 + 1, 0 }' > tokens.bin
cp "$here/../interpret/pieces.flow" .
export OMP_NUM_THREADS=1
run() {
    plan=$1 ranks=$2
    shift 2
    mpirun -n "$ranks" --oversubscribe "$plan/run" --data tokens.bin --quiet "$@" > "$plan.out" 2>&1 || { cat "$plan.out"; exit 1; }
}
for plan in whole named pp2; do
    "$flowc" pieces.flow --plan "$plan" --target cpu -o "$plan" 2> "$plan.out" || { cat "$plan.out"; exit 1; }
    make -s -C "$plan" -j2 ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
done
run whole 1 --steps 4 --save w --export w.safetensors
run named 1 --steps 4 --save n --export n.safetensors
cmp w/step_000004/tensors-00001-of-00001.safetensors n/step_000004/tensors-00001-of-00001.safetensors
cmp w.safetensors n.safetensors
run pp2 4 --steps 2 --save p                         # in pieces on two stages, then whole, and the other way round
run whole 1 --steps 4 --resume p --metrics a.jsonl
run whole 1 --steps 2 --save v
run pp2 4 --steps 4 --resume v --metrics b.jsonl
run whole 1 --steps 4 --metrics c.jsonl
for f in a b; do
    awk 'function loss(l) { sub(/.*"loss": /, "", l); return l + 0 }
        FNR == NR { want = loss($0); next } { got = loss($0) }
        END { d = got - want; if (d < 0) d = -d; exit !(want > 0 && d <= 5e-6) }' c.jsonl $f.jsonl || {
        echo "pieces.sh: $f.jsonl ends elsewhere than c.jsonl"
        tail -n 1 c.jsonl $f.jsonl
        exit 1
    }
done
cd /
rm -rf "$work"
