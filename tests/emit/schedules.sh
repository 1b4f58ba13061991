#!/bin/sh
# schedules.sh FLOWC DIR: whatever the schedule, the same numbers. Losses and weights after four steps of every schedule are
# those of one_f_one_b, to the bit, and its losses those of one rank.
flowc=$1
rm -rf "$2"
mkdir -p "$2" || exit 1
here=$(cd "$(dirname "$0")" && pwd)
cd "$2" || exit 1
. "$here/../../scripts/mpi-env.sh"
od -An -v -tu1 -w1 "$here/schedules.sh" | awk '{ printf "%c%c", $1 % 5 + 1, 0 }' | tr '\001\002\003\004\005' '\000\001\002\003\004' >text.bin

run() { # PLAN RANKS
    "$flowc" "$here/schedules.flow" --plan "$1" --target cpu -o "$1" 2>"$1.log" || { cat "$1.log"; exit 1; }
    make -s -C "$1" ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"} >"$1.log" 2>&1 || { cat "$1.log"; exit 1; }
    OMP_NUM_THREADS=1 timeout 100 mpirun --oversubscribe -n "$2" "$1/run" --data text.bin --metrics "$1.jsonl" \
        --export "$1.safetensors" --quiet >"$1.log" 2>&1 || { echo "$1:"; cat "$1.log"; exit 1; }
    grep -o '"loss": *[^,]*' "$1.jsonl" >"$1.loss"
}
near() { # ONE MANY: the same losses up to rounding
    paste "$1.loss" "$2.loss" | awk '{ d = $2 - $4; if (d < 0) d = -d; if (d > 2e-6) { print "loss", $2, $4; exit 1 } }' || exit 1
    [ "$(wc -l <"$2.loss")" -eq 4 ] || { echo "$2: not four steps"; exit 1; }
}
equal() { # A B
    cmp "$1.loss" "$2.loss" && cmp "$1.safetensors" "$2.safetensors" || { echo "$2 differs from $1"; exit 1; }
}
run one 1
run one_f_one_b 4
near one one_f_one_b
for plan in gpipe split_w interleaved zb_h1 zb_h2 zb_v; do
    run $plan 4
    equal one_f_one_b $plan
done
run one2 1
run few_1f 4
near one2 few_1f
for plan in few_il few_v few_h2; do
    run $plan 4
    equal few_1f $plan
done
run dp_1f 4
run dp_h1 4
equal dp_1f dp_h1
near one dp_1f
