#!/usr/bin/env bash
# refused.sh FLOWC REPORT WORK: what a command line asks for and cannot be had is said before the first step, in one line that
# names the option, with exit code 2 (usage) or 3 (refused): files that cannot be written, steps that are not made, options
# that need another one. What an earlier run wrote stays.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
flowc=$1 report=$2 work=$3
. "$here/../program.sh"
cat "$here"/*.sh "$here"/*.c | perl -0777 -ne 'print pack "v*", unpack "C*", $_' >text.bin
build one cpu "$here/../../examples/mlp/mlp.flow" single
alone() { one/run --data text.bin --quiet --steps 4 "$@" >out 2>&1; } # one rank needs no mpirun
refuses() { # CODE WORDS options..
    local status=0
    alone "${@:3}" || status=$?
    [ $status = "$1" ] || { cat out; fail "exit code $status of ${*:3}"; }
    grep -q "^flow: $2" out || { cat out; fail "does not say '$2'"; }
    [ "$(grep -c '^flow: ' out)" = 1 ] || { cat out; fail "more than one line of ${*:3}"; }
}
echo '{"step": 1, "loss": 1}' >m.jsonl
mkdir folder
for what in --metrics --prometheus --trace; do
    refuses 3 "$what: cannot write no/such.*: No such file or directory" --metrics m.jsonl $what no/such
    refuses 3 "$what: .*folder.*" --metrics m.jsonl $what folder
done
refuses 3 '--tensorboard: cannot write into no/such/folder: No such file' --metrics m.jsonl --tensorboard no/such/folder
refuses 3 '.*cannot write no/such.part' --check-cluster -o no/such
refuses 3 "--dump: step 5 is not made, the run ends with step 4" --dump '*' -o d.st --dump-step 5 --metrics m.jsonl
refuses 3 "--dump: step 1 is not made, the run ends with step 0" --dump '*' -o d.st --steps 0
refuses 3 "--dump ' , ' names no value" --dump ' , ' -o d.st
[ "$(cat m.jsonl)" = '{"step": 1, "loss": 1}' ] || fail "the metrics are gone"
refuses 2 '--metrics and --trace both write same' --trace same --metrics same
refuses 2 '--selftest and --check-cluster' --selftest --check-cluster
refuses 2 'one step is the least that can be traced' --trace t.json --trace-steps 0
for option in --save-every --keep; do refuses 2 "$option needs --save" $option 2; done
refuses 2 '--dump-step needs --dump' --dump-step 2
refuses 2 '--trace-steps needs --trace' --trace-steps 2
for count in -5 ' -5' 1e3 '' 99999999999999999999; do refuses 2 'not a count: ' --save-every "$count"; done
refuses 2 'not a seed: ' --seed ' -5'
# a folder may be named with a slash behind it
alone --save ck/ --save-every 2 --tensorboard tb/ || { cat out; fail "--save ck/"; }
alone --resume ck/step_000004/ --save ck/ --steps 6 --trace none.json || { cat out; fail "--resume ck/step_000004/"; }
[ -e ck/step_000006/manifest.json ] && ls tb/events.* >out || fail "in ck: $(ls ck)"
alone --resume ck/ --steps 6 --trace none.json || { cat out; fail "nothing left to do"; }
grep -q 'there is no step to trace, none.json is not written' out || { cat out; fail "no step to trace"; }
# a trace that finds no room ends no run
if command -v prlimit >/dev/null; then
    mpirun --mca btl self -n 1 prlimit --fsize=4096 one/run --data text.bin --quiet --steps 6 --trace full.json >out 2>&1 || { cat out; fail "a full disk"; }
    grep -q 'cannot write full.json: File too large' out && ! ls full.json* 2>/dev/null || { cat out; fail "a full disk"; }
fi
# an evaluation that is no number is not the least
printf '{"step": 2, "loss": 3, "eval_loss": null}\n{"step": 4, "eval_loss": 2.5}\n' >some.jsonl
"$report" some.jsonl -o r.html && grep -q '<td>2.5000 at 4</td>' r.html || fail "the least evaluation: $(grep -o '<td>[^<]*at[^<]*' r.html)"
finish
