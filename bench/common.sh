# Sourced by measurements, in the root of the repository: their options, the sizes of their models, and what they build with.
# options LINES NAMES ARGS..: --NAME VALUE sets the variable NAME; --model and --peer, which may come again, add to `models` and
# `peers`. Anything else is answered with those lines of the script, as sed counts them.
options() {
    local lines=$1 names=" $2 "
    shift 2
    while [ $# -gt 1 ] && [[ $1 == --?* && $names == *" ${1#--} "* ]]; do
        case $1 in
        --model) models+=("$2") ;;
        --peer) peers+=("$2") ;;
        *) printf -v "${1#--}" %s "$2" ;;
        esac
        shift 2
    done
    [ $# = 0 ] || { sed -n "${lines}s/^# //p" "bench/$(basename "$0")"; exit 2; }
}
# size MODEL: blocks, width, heads, tokens of a sequence and vocabulary; blocks on each of two stages, the head with the second
size() {
    case $1 in
    tiny) L=4 D=128 H=4 T=64 V=1024 map='2, 2' ;;
    small) L=6 D=384 H=6 T=256 V=8192 map='4, 2' ;;
    gpt2) L=12 D=768 H=12 T=256 V=50257 map='9, 3' ;;
    1.3b) L=24 D=2048 H=16 T=256 V=50257 map='13, 11' ;;
    *) echo "bench: no model $1"; exit 2 ;;
    esac
}
# built TARGET..: the programs of these names in $build, and `runtime`, the cpu target's as the tests built it
built() {
    local name
    build=${BUILD:-build} runtime=
    for name; do
        [ -x "$build/$name" ] || { cmake -S . -B "$build" >/dev/null && cmake --build "$build" -j "$(nproc)" --target "$(basename "$name")"; }
    done
    [ ! -f "$build/libflow_cpu.a" ] || runtime=$(realpath "$build/libflow_cpu.a")
    . scripts/mpi-env.sh
}
# example N: the GPT example on devices of any size, with plans bench_f32 and bench_bf16, data parallel on N ranks
example() {
    { cat examples/gpt/gpt.flow; for type in f32 bf16; do
        sed -n '/^plan bf16 /,/^}/p' examples/gpt/gpt.flow | sed "s/^plan bf16 /plan bench_$type /; s/dp: 2/dp: $1/"
      done | sed '/^plan bench_f32 /,/^}/{/precision/d}'; } | sed "/^ *memory/d; /^plan pp2 /,/^}/s/split h }/split h${map:+ = [$map]} }/"
}
# tokens V: a million of them, below V, in 16 bits, the same each time
tokens() { perl -e 'srand 1; print pack "v*", map { int rand $ARGV[0] } 1 .. 1e6' "$1"; }
# gpus_here N: the largest of 1, 2 and 4 GPUs that N has
gpus_here() {
    local n=1
    while [ $((n * 2)) -le "$1" ] && [ $n -lt 4 ]; do n=$((n * 2)); done
    echo $n
}
