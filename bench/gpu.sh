#!/usr/bin/env bash
# bench/gpu.sh [--steps N] [--gpus N] [--peer 'NAME=COMMAND']...: trains GPT-2 124M and a 1.3B model of the same shape on the
# GPUs of this machine for some steps and prints tokens/s, MFU (three times the forward pass, against the f32 peak of the
# device) and memory held against the plan. A peer's COMMAND must print its tokens/s as the last word of its last line.
set -eu
cd "$(dirname "$0")/.."
steps=20 gpus= peers=()
while [ $# -gt 0 ]; do
    case $1 in
    --steps) steps=$2 ;;
    --gpus) gpus=$2 ;;
    --peer) peers+=("$2") ;;
    *) sed -n '2,4s/^# //p' "$0"; exit 2 ;;
    esac
    shift 2
done
if ! names=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null) || [ -z "$names" ]; then
    echo "bench: no GPU here; run this on a machine with one (bench/README.md)"
    exit 1
fi
present=$(echo "$names" | wc -l) name=$(echo "$names" | head -n 1)
if [ -z "$gpus" ]; then gpus=1; while [ $((gpus * 2)) -le "$present" ] && [ $gpus -lt 4 ]; do gpus=$((gpus * 2)); done; fi
case $gpus in 1) plan=single ;; 2) plan=dp2 ;; 4) plan=dp4 ;; *) echo "bench: --gpus 1, 2 or 4"; exit 2 ;; esac
case $name in                            # f32 peak without tensor cores, TFLOP/s
*H100*PCIe*) peak=51 ;; *H100* | *H200*) peak=67 ;; *A100*) peak=19.5 ;; *L40S*) peak=91.6 ;; *4090*) peak=82.6 ;; *) peak= ;;
esac
[ -x build/flowc ] && [ -x build/flow-tokens ] || { cmake -S . -B build >/dev/null && cmake --build build -j "$(nproc)" --target flowc flow-tokens; }
. scripts/mpi-env.sh
work=build/bench
mkdir -p "$work"
git ls-files | grep -E '\.(c|h|cu|md)$' | xargs build/flow-tokens -o "$work/tokens.bin"
echo "$gpus x $name, plan $plan, $steps steps, f32"

# bench_model NAME L D H N M: sequences of 1024 tokens, GPT-2's vocabulary
bench_model() {
    local label=$1 L=$2 D=$3 H=$4 N=$5 M=$6 dir=$work/$1
    build/flowc examples/gpt/gpt.flow --plan "$plan" --target cuda -o "$dir" --set V=50257 --set T=1024 --set D="$D" \
        --set H="$H" --set L="$L" --set N=$((N * gpus)) --set M="$M" --set steps="$steps" --set warmup=1
    make -s -C "$dir" -j "$(nproc)" ARCH="-arch native"
    mpirun -n "$gpus" "$dir/run" --data "$work/tokens.bin" --steps "$steps" --metrics "$dir/m.jsonl" --quiet
    awk -v label="$label" -v L="$L" -v D="$D" -v V=50257 -v T=1024 -v gpus="$gpus" -v peak="${peak:-0}" '
        function field(key) { match($0, "\"" key "\": *[-+0-9.e]+"); s = substr($0, RSTART, RLENGTH); sub(/.*: */, "", s); return s + 0 }
        /tokens_per_s/ { n++; if (n > 2) { sum += field("tokens_per_s"); count++ } bytes = field("peak_bytes") }
        END {
            rate = sum / count
            flop = 3 * (2 * (12 * L * D * D + D * V) + 4 * L * T * D)
            printf "%s: %.0f tokens/s, ", label, rate
            if (peak > 0) printf "MFU %.1f %% of %g TFLOP/s, ", 100 * rate * flop / (gpus * peak * 1e12), peak
            printf "%.2f GiB held per rank\n", bytes / 1073741824
        }' "$dir/m.jsonl"
    build/flowc examples/gpt/gpt.flow --plan "$plan" --emit=memory --set V=50257 --set T=1024 --set D="$D" --set H="$H" \
        --set L="$L" --set N=$((N * gpus)) --set M="$M" | awk 'NR == 1 { printf "    planned: %.2f GiB per rank\n", $3 / 1073741824 }'
}
bench_model gpt2_124m 12 768 12 16 4
bench_model gpt_1.3b 24 2048 16 8 8

for p in ${peers[@]+"${peers[@]}"}; do
    echo "${p%%=*}: $(bash -c "${p#*=}" | tail -n 1 | awk '{ print $NF }') tokens/s"
done
