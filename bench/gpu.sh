#!/usr/bin/env bash
# bench/gpu.sh [--model gpt2|1.3b]... [--steps N] [--gpus 1|2|4] [--python PROGRAM] [--peer 'NAME=COMMAND']...: trains GPT-2 124M and
# a 1.3B model of the same shape on the GPUs of this machine, in f32 and bf16; where PROGRAM (default python3) has PyTorch,
# bench/torch_gpt.py too, eager and compiled. For each: tokens/s, MFU (three times the forward pass, against the peak of the
# device in that type) and memory held, flowc's beside its plan. A peer's COMMAND must print its tokens/s as the last word of its last line.
set -eu
cd "$(dirname "$0")/.."
models=() steps=20 gpus= python=python3 peers=()
. bench/common.sh
options 2,5 "model steps gpus python peer" "$@"
[ ${#models[@]} -gt 0 ] || models=(gpt2 1.3b)
device=cuda name= present=1
if [ -n "${DOUBLE:-}" ]; then            # for the test of this script: on the test double, its objects in DOUBLE
    device=cpu
elif ! names=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null) || [ -z "$names" ]; then
    echo "bench: no GPU here; run this on a machine with one (bench/README.md)"
    exit 1
else
    present=$(echo "$names" | wc -l) name=$(echo "$names" | head -n 1)
fi
[ -n "$gpus" ] || gpus=$(gpus_here "$present")
case $gpus in 1 | 2 | 4) ;; *) echo "bench: --gpus 1, 2 or 4"; exit 2 ;; esac
case $name in                            # TFLOP/s in f32 without tensor cores, and in bf16 on dense tensor cores
*H100*PCIe*) peak_f32=51 peak_bf16=756 ;; *H100* | *H200*) peak_f32=67 peak_bf16=989 ;; *A100*) peak_f32=19.5 peak_bf16=312 ;;
*L40S*) peak_f32=91.6 peak_bf16=362 ;; *4090*) peak_f32=82.6 peak_bf16=165 ;; *) peak_f32=0 peak_bf16=0 ;;
esac
built flowc flow-tokens
work=$build/bench_gpu
rm -rf "$work"
mkdir -p "$work"
{ git ls-files 2>/dev/null || find . -path ./.git -prune -o -type f -print; } | grep -E '\.(c|h|cu|md)$' | xargs "$build/flow-tokens" -o "$work/tokens.bin"
torch=$("$python" -c 'import torch; print(torch.__version__)' 2>/dev/null || true)
compiles=$("$python" -c 'import torch; print(int(hasattr(torch, "compile")))' 2>/dev/null || true)
echo "PyTorch ${torch:-none}, $gpus x ${name:-the test double}, $steps steps"
example "$gpus" >"$work/gpt.flow"

# report NAME TYPE RATE: tokens/s and MFU of the model in L, D, V, T
report() {
    local peak=$peak_f32
    [ "$2" = bf16 ] && peak=$peak_bf16
    awk -v name="$1" -v rate="$3" -v L=$L -v D=$D -v V=$V -v T=$T -v gpus="$gpus" -v peak="$peak" 'BEGIN {
        flop = 3 * (2 * (12 * L * D * D + D * V) + 4 * L * T * D)
        printf "    %-24s %9.0f tokens/s", name, rate
        if (peak > 0) printf "   MFU %4.1f %% of %g TFLOP/s", 100 * rate * flop / (gpus * peak * 1e12), peak
    }'
}
# ours TYPE
ours() {
    local dir=$work/$1
    "$build/flowc" "$work/gpt.flow" --plan "bench_$1" --target cuda --no-verify -o "$dir" "${sizes[@]}"
    if [ -n "${DOUBLE:-}" ]; then
        make -s -f tests/cuda/double/double.mk PROGRAM="$(realpath "$dir")" BUILD="$DOUBLE"
        mv "$dir/run.double" "$dir/run"
    else
        make -s -C "$dir" -j "$(nproc)" ARCH="-arch native" >"$work/said" 2>&1 || { cat "$work/said"; exit 1; }
    fi
    mpirun -n "$gpus" "$dir/run" --data "$work/tokens.bin" --steps "$steps" --metrics "$dir/m.jsonl" --quiet
    report "flowc $1" "$1" "$(sed -n 's/.*"tokens_per_s": *\([0-9.e+-]*\).*/\1/p' "$dir/m.jsonl" | tail -n +3 | sort -g |
        awk '{ x[NR] = $1 } END { print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2 }')"
    local planned
    planned=$("$build/flowc" "$work/gpt.flow" --plan "bench_$1" --no-verify --emit=memory "${sizes[@]}" | sed -n '1s/^stage 0: \([0-9]*\) bytes.*/\1/p')
    awk -v planned="$planned" '{ match($0, "\"peak_bytes\": *[0-9]+"); s = substr($0, RSTART, RLENGTH); sub(/.*: */, "", s) }
        END { printf "   %.2f GiB held per rank, %.2f planned\n", s / 1073741824, planned / 1073741824 }' "$dir/m.jsonl"
}
# theirs NAME TYPE ARGS..
theirs() {
    local label=$1 type=$2
    shift 2
    rm -f "$work/meet"
    mpirun -n "$gpus" "$python" bench/torch_gpt.py --device $device --blocks $L --width $D --heads $H --length $T --vocabulary $V \
        --batch $N --micro $M --steps "$steps" --skip 2 --meet "$work/meet" "$@" >"$work/said" 2>&1 ||
        { echo "    $label: failed: $(grep -m 1 Error "$work/said")"; return; }
    report "$label" "$type" "$(sed -n 's/.*, \([0-9.]*\) tok\/s$/\1/p' "$work/said")"
    sed -n 's/^held \(.*\)/   \1 held per rank/p' "$work/said" | grep . || echo
}

for model in "${models[@]}"; do
    size "$model"
    case $model in                       # N sequences of T tokens for each GPU in M micro-batches
    1.3b) T=1024 N=8 M=8 ;;
    gpt2) T=1024 N=16 M=4 ;;
    *) N=4 M=2 ;;
    esac
    sizes=(--set V=$V --set T=$T --set D=$D --set H=$H --set L=$L --set N=$((N * gpus)) --set M=$M --set steps="$steps" --set warmup=1)
    echo "$model: $L blocks, width $D, $H heads, $T tokens, vocabulary $V, $N sequences per GPU in $M micro-batches"
    ours f32
    ours bf16
    if [ -n "$torch" ]; then
        theirs "PyTorch eager f32" f32
        theirs "PyTorch eager bf16" bf16 --bf16
        if [ "$compiles" = 1 ]; then
            theirs "PyTorch compiled f32" f32 --compile
            theirs "PyTorch compiled bf16" bf16 --bf16 --compile
        fi
    fi
done
for p in ${peers[@]+"${peers[@]}"}; do
    echo "${p%%=*}: $(bash -c "${p#*=}" | tail -n 1 | awk '{ print $NF }') tokens/s"
done
rm -rf "$work"
