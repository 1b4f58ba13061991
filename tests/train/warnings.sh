#!/usr/bin/env bash
# warnings.sh FLOWC SLOW.so WORK DOUBLE: what is said of communication, use, memory and steps of unequal length, once each and with
# a change of the plan; and who is named as slow, a rank or a link. On cpu with ranks that sleep, memory on the double.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../scripts/mpi-env.sh"
flowc=$1 slow=$2 work=$3 double=$4
rm -rf "$work"
mkdir -p "$work"
cd "$work"
export OMP_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=0
fail() { echo "FAILED: $*" >&2; cat log >&2; exit 1; }
cat "$here"/*.sh "$here"/*.c | perl -0777 -ne 'print pack "v*", unpack "C*", $_' >text.bin
sed '/^sample {/,/^}/d' "$here/../../examples/gpt/gpt.flow" >gpt.flow       # who sleeps in every product samples for a minute
make_program() { # name, plan, target
    "$flowc" gpt.flow --plan "$2" --set V=256 --set T=8 --set D=16 --set H=2 --set L=1 --set N=4 --set M=2 \
        -o "$1" --target "$3"
    if [ "$3" = cuda ]; then make -s -f "$here/../cuda/double/double.mk" PROGRAM="$work/$1" BUILD="$double"
    else make -s -C "$1" ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}; fi
}
run() { # ranks, name, further arguments; the environment says who is slow
    env LD_PRELOAD="$slow" mpirun -n "$1" --oversubscribe "$2/run" --data text.bin --metrics m.jsonl --prometheus run.prom "${@:3}" >log 2>&1 ||
        fail "$*"
}
once() { [ "$(grep -c "$1" log)" = 1 ] || fail "not once: $1"; }
make_program four dp2_tp2 cpu
# rank 3 is slow in every product, of which a step has 30: the others wait for it
SLOW=4 SLOW_RANKS=3 run 4 four --steps 32
once 'warning: communication takes [0-9]* % of the step (over 25 %), most of it along .*: .*try '
once 'warning: the devices work [0-9]* % of the time (under 70 %), .*: .*try '
once 'warning: rank 3 is slow: the others wait .* s a step more in communication'
tail -1 m.jsonl | grep -q '"slow": {"who": "rank 3", "axis": "[dt]p", "s": ' || fail "metrics: $(tail -1 m.jsonl)"
grep -q '^flow_slow_seconds{.*,who="rank 3",axis="[dt]p"} 0\.[0-9]' run.prom || fail "run.prom: $(grep slow run.prom)"
perl "$here/prometheus.pl" run.prom || fail "run.prom"
# what links ranks 2 and 3 is slow (17 calls a step): they are, but wait for nobody
FL_SHARED=0 SLOW=8 SLOW_LINK=1 SLOW_RANKS="2 3" run 4 four --steps 32
tail -1 m.jsonl | grep -q '"slow": {"who": "the link of ranks 2, 3", "axis": "tp"' || fail "metrics: $(tail -1 m.jsonl)"
once 'warning: the link of ranks 2, 3 along .tp. is slow'
# quiet says it in one line, at the end
SLOW=1 SLOW_RANKS=3 run 4 four --steps 25 --quiet
[ "$(grep -c warning log)" = 1 ] && grep -q '^flow: [1-5] warnings: step 2[0-9]: .*; step 2[0-9]: .*try ' log || fail "not one line"
grep -q '^{"step": 2[0-9], "warning": ".*try .*"}$' m.jsonl || fail "no warning in the metrics"
# one step in five is long
make_program one single cpu
SLOW=40 SLOW_RANKS=0 SLOW_EVERY=150 run 1 one --steps 32
once 'warning: steps take unequal time, the deviation is [0-9.]* of the mean (over 0.15).*try '
tail -1 m.jsonl | perl -ne '/"step_variation": ([\d.]+)/ && $1 > 0.15 or exit 1' || fail "$(tail -1 m.jsonl)"
! grep -q 'communication takes' log || fail "one rank does not communicate"
# a device that is nearly full
make_program device single cuda
FL_DOUBLE_MEMORY=$(sed -n 's/.*"peak_bytes": \([0-9]*\).*/\1/p' m.jsonl | tail -1) mpirun -n 1 device/run.double --data text.bin --steps 24 \
    --metrics c.jsonl >log 2>&1 || fail device
once 'warning: the memory that rank 0 runs in is [0-9]* % full (over 85 %): try `recompute`'
echo ok
