#!/usr/bin/env bash
# files.sh FLOWC REPORT READ_EVENTS WORK: what --prometheus and --tensorboard write is well-formed and says what --metrics says;
# a run that goes on takes steps back there as well; flow-report makes a page of it; a terminal gets one line.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
flowc=$1 report=$2 read_events=$3 work=$4
. "$here/../program.sh"
cat "$here"/*.sh "$here"/*.c | perl -0777 -ne 'print pack "v*", unpack "C*", $_' >text.bin
build out cpu "$here/../../examples/gpt/gpt.flow" dp2_tp2 --cluster here --set V=256 --set T=16 --set D=32 --set H=4 --set L=2 --set N=8 --set M=2
watched() { run out --data text.bin --eval-data text.bin --metrics m.jsonl --prometheus run.prom --tensorboard tb "$@"; }
watched --steps 25 --save ck
perl "$here/prometheus.pl" run.prom || fail "run.prom"
[ ! -e run.prom.part ] || fail "something is left"
last() { sed -n "s/.*\"$1\": \([-0-9.e+]*\).*/\1/p" m.jsonl | tail -1; }
gauge() { sed -n "s/^flow_$1{run=\"run\",program=\"[^\"]*gpt.flow\",plan=\"dp2_tp2\"$2} //p" run.prom; }
same() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a == b && a != "") }' || fail "$3: $1 and $2"; }
same "$(gauge step '')" 25 "step"
same "$(gauge loss '')" "$(last loss)" "loss"
same "$(gauge eval_loss '')" "$(last eval_loss)" "eval_loss"
same "$(gauge grad_norm '')" "$(last grad_norm)" "norm"
same "$(gauge mfu_ratio '')" "$(last mfu)" "mfu"
same "$(gauge communication_ratio '')" "$(last comm_share)" "communication"
same "$(gauge step_variation_ratio '')" "$(last step_variation)" "variation"
for rank in 0 1 2 3; do
    for axis in dp tp; do
        awk -v x="$(gauge wait_seconds ",rank=\"$rank\",axis=\"$axis\"")" 'BEGIN { exit !(x > 0) }' || fail "no waiting of rank $rank along $axis"
    done
    awk -v x="$(gauge device_use_ratio ",rank=\"$rank\"")" -v m="$(gauge memory_used_ratio ",rank=\"$rank\"")" \
        'BEGIN { exit !(x > 0 && x <= 1 && m > 0 && m < 1) }' || fail "use and memory of rank $rank"
done
# shares of a step: rank 0 stands and works, all together no longer than the step
perl -ne '/"step_s": ([-\d.e]+), "comm_s": ([-\d.e]+), "compute_s": ([-\d.e]+), "input_s": ([-\d.e]+)/ or next;
    die "$_" if $2 < 0 || $3 <= 0 || $2 + $3 + $4 > 1.001 * $1; $n++; END { die "$n" if $n != 25 }' m.jsonl || fail "times of a step"
"$read_events" tb/events.* >events || fail "tb"
[ "$(head -2 events | tr '\n' ' ')" = "version brain.Event:2 start 1 " ] || fail "version, and a start over what was there"
[ "$(grep -c ' train/loss ' events)" = 25 ] || fail "not 25 losses"
paste <(awk '$2 == "train/loss" { print $1, $3 }' events) <(sed -n 's/{"step": \([0-9]*\), "loss": \([-0-9.e+]*\),.*/\1 \2/p' m.jsonl) |
    awk '{ d = $2 - $4; if ($1 != $3 || d > 1e-6 || d < -1e-6) exit 1 }' || fail "losses in tb"
grep -q '^25 eval/loss ' events && grep -q '^25 eval/perplexity ' events || fail "no evaluation in tb"
cp tb/events.* broken && printf '\1' | dd of=broken bs=1 seek=300 conv=notrunc status=none
"$read_events" broken >/dev/null 2>&1 && fail "a broken event file is read"
rm -f tb/events.*
watched --steps 27 --resume ck
"$read_events" tb/events.* >events
grep -q '^start 26$' events && [ "$(awk '$2 == "train/loss"' events | wc -l)" = 2 ] || fail "resumed: $(cat events)"
if python3 -c 'import tensorboard' 2>/dev/null; then
    python3 - tb <<'PY' || fail "tensorboard cannot read it"
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
e = EventAccumulator(sys.argv[1]); e.Reload()
assert [s.step for s in e.Scalars("train/loss")] == [26, 27]
PY
fi
# the page
sed '7s/"loss": [-0-9.e+]*/"loss": null/' m.jsonl >'a&b<c>.jsonl'
printf '{"step": 28, "lo' >>'a&b<c>.jsonl'                  # a run that is under way
"$report" 'a&b<c>.jsonl' m.jsonl -o r.html || fail "flow-report"
[ "$(perl "$here/well_formed.pl" r.html)" = "6 charts" ] || fail "r.html: $(perl "$here/well_formed.pl" r.html 2>&1)"
for title in loss 'learning rate' 'gradient norm, before clipping' throughput; do grep -q "<title>$title</title>" r.html || fail "no chart of $title"; done
grep -q 'step 7: not finite' r.html && grep -q 'a&amp;b&lt;c&gt;.jsonl' r.html || fail "what is in r.html"
echo '{"stop": 1}' >bad.jsonl
"$report" bad.jsonl -o bad.html 2>err && fail "a file of something else"
grep -q 'bad.jsonl: line 1: no step' err && [ ! -e bad.html ] || fail "$(cat err)"
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -n "$browser" ]; then
    timeout 100 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/browser" --window-size=1000,1900 --screenshot="$work/r.png" \
        "file://$work/r.html" >browser.log 2>&1 || { cat browser.log; fail "the browser"; }
    [ "$(wc -c <r.png)" -gt 20000 ] || fail "an empty page"
fi
# a terminal: one line that is rewritten, and cut where the terminal ends
if command -v script >/dev/null; then
    build one cpu "$here/../../examples/mlp/mlp.flow" single
    TERM=xterm script -qec 'one/run --data text.bin --steps 40' tty >/dev/null </dev/null || fail "on a terminal: $(cat tty)"
    perl -0777 -ne 'my @shown = /\r\e\[\?7lstep (\d+)\/40  loss [^\n\r\e]*  eta \w+\e\[K\e\[\?7h/g; exit !(@shown && @shown <= 40 && $shown[-1] == 40 && !/step \d+\/40[^\e]*\n/)' tty ||
        fail "the live line: $(cat -v tty | tail -5)"
fi
finish
