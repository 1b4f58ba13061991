#!/usr/bin/env bash
# From a fresh clone to a trained model in under ten minutes: installs what it needs, builds, shows a mistake, a lost
# sum and a hang caught, one model under four plans, a GPT that learns a text on two ranks, and one of them killed.
#   scripts/demo.sh [TEXT...]     by default the text is the project's own sources and documents
set -eu
cd "$(dirname "$0")/.."
start=$(date +%s)
say() { printf '\n== %s\n' "$*"; }
objects=
make_program() { # every output carries the runtime's sources: what was made of the first one's serves the others
    make -s -C "$work/$1" -j "$(nproc)" ${objects:+RUNTIME="$objects"}
    [ -n "$objects" ] || objects=$(cd "$work/$1" && printf "../$1/%s " runtime/*.o runtime/cpu/*.o)
}

say "install and build"
scripts/install.sh
cmake -S . -B build >/dev/null
cmake --build build -j "$(nproc)" | tail -n 1
. scripts/mpi-env.sh
work=build/demo
rm -rf "$work"
mkdir -p "$work"

say "1 a mistake: the heads' queries are pinned to a split that attention cannot read"
cat examples/gpt/gpt.flow - >"$work/mistake.flow" <<'FLOW'

plan mistake {
    mesh m = [tp: 2]
    sbp h[*].attn.qkv_weight = {tp: S(H)}
    pin h[*].attn.q          = {tp: S(K)}
}
FLOW
before=$(date +%s%N)
if build/flowc "$work/mistake.flow" --plan mistake -o "$work/mistake" 2>"$work/mistake.txt"; then
    echo "demo: the mistake was not found"
    exit 1
fi
cat "$work/mistake.txt"
echo "rejected in $((($(date +%s%N) - before) / 1000000)) ms; nothing was written"

say "2 one model, four plans: only --plan changes"
size="--set T=64 --set D=64 --set H=4 --set L=4 --set N=8 --set M=2 --set V=256"
git ls-files 2>/dev/null | grep -E '\.(c|h|cu|md|flow|def|sh|l|y|txt)$' >"$work/files" || true
# In an order that has nothing to do with the names, so that what is held out is like what is learnt.
shuffle() { while read -r f; do echo "$(printf %s "$f" | cksum | cut -d' ' -f1) $f"; done | sort -n | cut -d' ' -f2-; }
[ -s "$work/files" ] || find . -path ./build -prune -o -type f -regex '.*\.\(c\|h\|cu\|md\|flow\|def\|sh\)' -print | sort >"$work/files"
shuffle <"$work/files" >"$work/shuffled" && mv "$work/shuffled" "$work/files"
if [ $# -gt 0 ]; then
    printf '%s\n' "$@" >"$work/files"
    name="$*"
else
    name="the project's own sources and documents ($(wc -l <"$work/files") files)"
fi
trigrams=$(xargs -d '\n' build/flow-tokens -o "$work/train.bin" --held-out "$work/held.bin" --share 0.1 --trigrams <"$work/files")
plans="single:1 dp2:2 tp2:2 pp2:2"
for p in $plans; do
    plan=${p%:*} ranks=${p#*:}
    build/flowc examples/gpt/gpt.flow --plan "$plan" $size --set steps=20 --set warmup=5 -o "$work/$plan" --target cpu
    make_program "$plan"
    mpirun -n "$ranks" "$work/$plan/run" --data "$work/train.bin" --steps 20 --metrics "$work/$plan.jsonl" --quiet
    sed -n 's/.*"loss": *\([0-9.e+-]*\).*/\1/p' "$work/$plan.jsonl" >"$work/$plan.loss"
done
echo "step   single         dp2            tp2            pp2"
paste "$work/single.loss" "$work/dp2.loss" "$work/tp2.loss" "$work/pp2.loss" | awk '
    { printf "%4d", NR
      for (i = 1; i <= NF; i++) { printf "   %-12.9f", $i; d = $i - $1; if (d < 0) d = -d; if (d > worst) worst = d }
      print "" }
    END { printf "largest difference between two plans: %.2g\n", worst; exit NR != 20 || worst > 1e-5 }'

say "3 a lost sum: one all-reduce taken out of plan tp2 on purpose"
lost='drop all_reduce(tp) h[*].mlp.einsum@2'
if build/flowc examples/gpt/gpt.flow --plan tp2 $size --spoil "$lost" -o "$work/lost" --target cpu 2>"$work/lost.txt"; then
    echo "demo: the lost sum was not found"
    exit 1
fi
cat "$work/lost.txt"
echo "refused. Run anyway, nobody else complains:"
build/flowc examples/gpt/gpt.flow --plan tp2 $size --set steps=60 --set warmup=5 --spoil "$lost" --no-verify -o "$work/lost" --target cpu
build/flowc examples/gpt/gpt.flow --plan tp2 $size --set steps=60 --set warmup=5 -o "$work/kept" --target cpu
for run in lost kept; do
    make_program "$run"
    mpirun -n 2 "$work/$run/run" --data "$work/train.bin" --steps 60 --metrics "$work/$run.jsonl" --quiet
    sed -n 's/.*"loss": *\([0-9.e+-]*\).*/\1/p' "$work/$run.jsonl" >"$work/$run.loss"
done
echo "step   all sums      one lost"
paste "$work/kept.loss" "$work/lost.loss" | awk '
    NR == 1 || NR % 20 == 0 { printf "%4d   %-11.7f   %-11.7f\n", NR, $1, $2 }
    { d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d }
    END { printf "largest difference: %.2g\n", worst; exit NR != 60 || worst < 1e-4 }'

say "4 a hang: an order by hand in which two ranks wait for each other"
cat examples/gpt/gpt.flow - >"$work/hang.flow" <<'FLOW'

plan hang {
    mesh m = [pp: 2]
    microbatches 2 over N
    pipeline over pp { schedule = file("hang.csv"); split h }
}
FLOW
cat >"$work/hang.csv" <<'CSV'
# Stage 0 wants the gradient of micro-batch 0 before it goes on; stage 1 makes none before it has had both.
stage,phase,chunk,microbatch
0,F,0,0
0,B,0,0
0,F,0,1
0,B,0,1
1,F,0,0
1,F,0,1
1,B,0,0
1,B,0,1
CSV
if build/flowc "$work/hang.flow" --plan hang -o "$work/hang" --target cpu 2>"$work/hang.txt"; then
    echo "demo: the hang was not found"
    exit 1
fi
cat "$work/hang.txt"
echo "refused before anything was launched: launched, both ranks would stand still without a word"

say "5 8192 ranks: Llama 3 405B, looked at on this machine"
before=$(date +%s%N)
build/flowc examples/llama/llama3-405b.flow --check --verify 2>&1 | tee "$work/llama.txt"
took=$((($(date +%s%N) - before) / 1000000))
grep -q '^verified: all ranks compute what one does' "$work/llama.txt"
build/flowc examples/llama/llama3-405b.flow --no-verify --emit=memory | sed -n 's/^stage \([0-9]*\): \([0-9]*\) bytes.*/\1 \2/p' |
    awk '{ printf "%sstage %d: %.1f GiB", NR % 4 == 1 ? (NR > 1 ? "\n" : "") : "   ", $1, $2 / 1073741824 } END { print "" }'
echo "the order is certified, the ranks equal one device: $took ms for all of it"
if build/flowc examples/llama/llama3-405b.flow --plan kept --check 2>"$work/kept.txt"; then
    echo "demo: a plan that keeps all activations should not fit"
    exit 1
fi
cat "$work/kept.txt"

say "6 training on two ranks: $name"
steps=${DEMO_STEPS:-1800}
size="--set T=128 --set D=128 --set H=4 --set L=4 --set N=16 --set M=1 --set V=256 --set lr=2e-3 --set floor=2e-4 --set warmup=100"
build/flowc examples/gpt/gpt.flow --plan dp2 $size --set steps="$steps" -o "$work/gpt" --target cpu
make_program gpt
mpirun -n 2 "$work/gpt/run" --data "$work/train.bin" --eval-data "$work/held.bin" --metrics "$work/gpt.jsonl" | tee "$work/gpt.txt" |
    awk '!/^step/ || NR < 4 || /00\//'
loss=$(sed -n 's/.*"eval_loss": *\([0-9.e+-]*\).*/\1/p' "$work/gpt.jsonl" | tail -n 1)

say "7 the same run, and a rank is killed: it goes on under plan tp2"
build/flowc examples/gpt/gpt.flow --plan tp2 $size --set steps="$steps" -o "$work/gpt_tp2" --target cpu
make_program gpt_tp2
scripts/accident.sh "$work/gpt" "$work/gpt_tp2" "$work/gpt.jsonl" 300 "$work/accident" --data "$work/train.bin"

echo
awk -v x="$loss" -v y="$trigrams" -v s=$(($(date +%s) - start)) \
    'BEGIN { printf "demo: held-out loss %.4f, byte trigrams %.4f, %d s\n", x, y, s; exit !(x + 0 > 0 && x + 0 < y + 0) }'
