#!/usr/bin/env bash
# launch.sh FLOWC REPO WORK CASE: DIR/launch.
#   plain    it runs the plan's ranks, and its exit code is theirs
#   asked    SIGTERM to it, once and twice, or its terminal goes: a checkpoint, exit code 0, and nobody is left behind
#   retries  a rank is killed twice: it starts from the last checkpoint, and ends with the bits of an undisturbed run
#   damaged  the last checkpoint is: it goes on from the one before; what is refused is not tried again
#   on_loss  a rank is killed: it goes on under another plan with fewer ranks, and hosts that do not answer are left out
set -u
flowc=$1 repo=$2 work=$3 row=$4
. "$repo/tests/accidents/setup.sh"
export FL_TIMEOUT=20 FL_MPIRUN="mpirun --oversubscribe"
pids() { # of all ranks of programs of this test
    local exe
    for exe in /proc/[0-9]*/exe; do
        case $(readlink "$exe" 2>/dev/null) in "$work"/*/run) exe=${exe#/proc/} && echo "${exe%/exe}" ;; esac
    done
}
saved() { sed -n 's/.*"step": *\([0-9]*\).*/\1/p' "ck/$(cat ck/latest 2>/dev/null)/manifest.json" 2>/dev/null; }
lose_one() { # after start number $1, once that has saved something
    for try in $(seq 400); do
        [ "$1" = 0 ] || grep -q "^launch: .*start $1 of" out || { sleep 0.05 && continue; }
        at=${at:-$(saved)}
        at=${at:-0}
        [ "$(saved)" -le "$at" ] 2>/dev/null || [ -z "$(saved)" ] || break
        sleep 0.05
    done
    at=
    sleep 0.3
    kill -KILL "$(pids | shuf -n 1)"
}
at=
case $row in
plain)
    plans dp2
    dp2/launch --data tokens.bin --steps 2 --quiet --export a.st || fail "exit code $?"
    run dp2 --steps 2 --export b.st && cmp a.st b.st || fail "it runs something else"
    dp2/launch --data nowhere.bin --steps 2 2>out && fail "exit code 0"
    grep -q 'cannot open nowhere.bin' out || { cat out; fail "not its message"; }
    dp2/launch -n 1 --data tokens.bin 2>out && fail "exit code 0"
    grep -q 'use mpirun -n 2' out || { cat out; fail "-n is not passed on"; }
    status=0
    dp2/launch --retries x 2>out || status=$?
    [ $status = 2 ] && grep -q "takes a number, not 'x'" out || fail "usage: $status $(cat out)"
    status=0
    dp2/launch --on-loss single --data tokens.bin 2>out || status=$?
    [ $status = 2 ] && grep -q 'single/run: flowc .. --plan single' out || fail "usage: $status $(cat out)" ;;
asked)
    plans dp2
    "$work/dp2/launch" --data tokens.bin --save ck --quiet >out 2>&1 &
    sleep 2
    kill -TERM $!
    wait $! || { cat out; fail "exit code $?"; }
    grep -q '^flow: asked to stop' out && [ -e ck/latest ] || { cat out; fail "no checkpoint"; }
    # timeout signals it twice: once itself, once with its group
    timeout --preserve-status 4 "$work/dp2/launch" --data tokens.bin --save twice --quiet >out 2>&1 || { cat out; fail "exit code $? under timeout"; }
    grep -q '^flow: asked to stop' out && [ -e twice/latest ] || { cat out; fail "no checkpoint under timeout"; }
    # its terminal goes
    "$work/dp2/launch" --data tokens.bin --save hung --quiet >out 2>&1 &
    sleep 2
    kill -HUP $!
    wait $! || { cat out; fail "exit code $? without a terminal"; }
    [ -e hung/latest ] && [ -z "$(pids)" ] || { cat out; fail "a terminal that goes: $(pids)"; } ;;
retries)
    plans dp2_tp2
    PATIENCE=200 run dp2_tp2 --steps 800 --save whole || fail "run"
    "$work/dp2_tp2/launch" --retries 3 --data tokens.bin --save ck --save-every 20 --steps 800 --quiet --metrics m.jsonl >out 2>&1 &
    job=$!
    lose_one 0
    lose_one 1
    wait $job || { cat out; fail "exit code $?"; }
    # a new checkpoint between two accidents: both are the first in a row
    [ "$(grep -c '^launch: .*start 1 of 3' out)" = 2 ] || { cat out; fail "not two accidents"; }
    cmp <(seq 800) <(sed -n 's/{"step": \([0-9]*\), "loss".*/\1/p' m.jsonl) || fail "the metrics have not every step once"
    cmp <(cat whole/step_000800/tensors-*) <(cat ck/step_000800/tensors-*) || fail "other bits" ;;
damaged)
    plans dp2
    run dp2 --steps 6 --save whole || fail "run"
    run dp2 --steps 4 --save ck --save-every 2 || fail "run"
    printf 'x' | dd of=ck/step_000004/tensors-00001-of-00002.safetensors bs=1 seek=700 conv=notrunc status=none
    status=0
    dp2/launch --data tokens.bin --resume ck --steps 6 --quiet 2>out || status=$?
    [ $status = 4 ] && ! grep -q '^launch' out || { cat out; fail "exit code $status of a damaged checkpoint"; }
    dp2/launch --retries 1 --data tokens.bin --resume ck --save ck --steps 6 --quiet 2>out || { cat out; fail "exit code $?"; }
    grep -q '^launch: going on from .*ck/step_000002$' out || { cat out; fail "it does not say what it goes on from"; }
    cmp <(cat whole/step_000006/tensors-*) <(cat ck/step_000006/tensors-*) || fail "other bits"
    rm -rf ck/step_000002
    printf 'x' | dd of=ck/step_000006/tensors-00001-of-00002.safetensors bs=1 seek=700 conv=notrunc status=none
    status=0
    dp2/launch --retries 3 --data tokens.bin --resume ck --steps 8 --quiet 2>out || status=$?
    [ $status = 4 ] && [ "$(grep -c '^launch: going on' out)" = 1 ] || { cat out; fail "exit code $status where all are damaged"; }
    status=0
    dp2/launch --retries 3 --data nowhere.bin --steps 2 --quiet 2>out || status=$?
    [ $status = 3 ] && [ "$(grep -c 'cannot open nowhere.bin' out)" = 1 ] || { cat out; fail "exit code $status, or tried again"; } ;;
on_loss)
    plans dp4 dp2
    printf 'localhost slots=8\nnowhere.invalid slots=8\n' >hosts
    "$work/dp4/launch" --on-loss dp2 --data tokens.bin --save ck --save-every 20 --steps 1600 --quiet >out 2>&1 &
    job=$!
    lose_one 0
    wait $job || { cat out; fail "exit code $?"; }
    grep -q '^launch: exit code .*going on under plan dp2 with 2 ranks' out || { cat out; fail "no other plan"; }
    [ "$(cat ck/latest)" = step_001600 ] && [ "$(ls ck/step_001600 | wc -l)" = 3 ] || fail "$(ls ck/*)"
    dp4/launch --on-loss dp2 --hostfile hosts --data tokens.bin --steps 2 --quiet --export a.st >out 2>&1 || { cat out; fail "exit code $?"; }
    grep -q '^launch: host nowhere.invalid does not answer' out && [ -s a.st ] || { cat out; fail "a dead host stays"; } ;;
esac
cd /
rm -rf "$work"
