#!/bin/sh
# recompute.sh FLOWC DIR: what is made again for the backward is made to the same bits, random numbers included. Losses and
# weights after five steps are those of the plan that keeps everything; what is kept is less.
flowc=$1
rm -rf "$2"
mkdir -p "$2" || exit 1
here=$(cd "$(dirname "$0")" && pwd)
cd "$2" || exit 1
. "$here/../../scripts/mpi-env.sh"
od -An -v -tu1 -w1 "$here/recompute.sh" | awk '{ printf "%c%c", $1 % 5 + 1, 0 }' | tr '\001\002\003\004\005' '\000\001\002\003\004' >text.bin

saved() { "$flowc" "$here/recompute.flow" --plan "$1" --target cpu --emit=memory | awk '/saved activations/ { print $3; exit }'; }
run() { # PLAN RANKS
    "$flowc" "$here/recompute.flow" --plan "$1" --target cpu -o "$1" 2>/dev/null || exit 1
    make -s -C "$1" ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"} >"$1.log" 2>&1 || { cat "$1.log"; exit 1; }
    mpirun --oversubscribe -n "$2" "$1/run" --data text.bin --metrics "$1.jsonl" --export "$1.safetensors" --quiet >"$1.log" 2>&1 ||
        { cat "$1.log"; exit 1; }
    grep -o '"loss": *[^,]*' "$1.jsonl" >"$1.loss"
}
same() { # KEPT AGAIN
    cmp "$1.loss" "$2.loss" || exit 1
    cmp "$1.safetensors" "$2.safetensors" || exit 1
    [ "$(saved "$2")" -lt "$(saved "$1")" ] || { echo "$2 keeps as much as $1"; exit 1; }
}
run keep 1
for plan in all inner some; do
    run $plan 1
    same keep $plan
done
run tp_keep 2
run tp 2
same tp_keep tp
[ "$(wc -l <keep.loss)" -eq 5 ] || { echo "not five steps"; exit 1; }
"$flowc" "$here/recompute.flow" --plan tp --target cpu --emit=comm | grep -q "train *recompute *all_reduce" ||
    { echo "no collective is listed as recompute"; exit 1; }
