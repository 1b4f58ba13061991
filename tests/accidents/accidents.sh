#!/usr/bin/env bash
# accidents.sh FLOWC REPO WORK CASE: what happens to runs. Each ends within its time, with one report that names the rank at
# fault, not with exit code 0, and leaves a checkpoint from which it goes on.
#   killed       kill -9 of one rank of four
#   stopped      a rank is stopped: it is named, not those that wait for it
#   stopped_root the same of rank 0
#   disk_full    a disk of 1 MiB fills up (a mounted one where that is allowed)
#   file_limit   a file may not grow: the write fails, no signal kills the run
#   corrupt      one byte of a checkpoint is another, or its end is missing: the one before it is named, and goes on
#   plans        ranks of two plans; binaries  ranks of two builds; arguments  ranks started otherwise
#   ranks        fewer ranks, and more
#   no_shared    a directory that not all ranks see, to save and to resume
#   asked        SIGUSR1 to mpirun: a checkpoint, exit code 0, the same bits in the end
set -u
flowc=$1 repo=$2 work=$3 row=$4
. "$repo/tests/accidents/setup.sh"
export FL_TIMEOUT=3
refused() { # WORDS: of the command in "${command[@]}"
    local status=0
    timeout 60 "${command[@]}" >out 2>&1 || status=$?
    [ $status != 0 ] && [ $status != 124 ] || { cat out; fail "exit code $status"; }
    reported "$1"
}
case $row in
killed)
    plans dp2_tp2
    start dp2_tp2 --save ck --save-every 20 --metrics m.jsonl
    checkpointed ck
    trains m.jsonl
    kill -KILL "$(cat pid.2)"
    ended 10
    reported "rank 2 is gone (process $(cat pid.2) on .*); mpirun ends the run"
    arrived
    resumes ck dp2_tp2 ;;
stopped | stopped_root)
    plans dp2_tp2
    rank=1
    [ $row = stopped ] || rank=0
    start dp2_tp2 --save ck --save-every 20
    checkpointed ck
    kill -STOP "$(cat pid.$rank)"
    ended 20
    reported "rank $rank is stopped (process $(cat pid.$rank) on .*); nobody gets on for 3 s"
    arrived
    kill -KILL "$(cat pid.$rank)" 2>log
    resumes ck dp2_tp2 ;;
disk_full)
    plans dp2
    mkdir -p disk
    mount -t tmpfs -o size=600k none disk 2>log || { echo "disk_full: no disk can be mounted here, skipped"; exit 77; }
    trap 'umount "$work/disk"' EXIT
    run dp2 --steps 3 --save disk/ck >out 2>&1 || { cat out; fail "a first checkpoint fits"; }
    dd if=/dev/zero of=disk/other bs=1k count=400 2>log
    command=(mpirun -n 2 --oversubscribe dp2/run --data tokens.bin --quiet --resume disk/ck --save disk/ck --save-every 1 --keep 50 --steps 400)
    refused 'rank [01], checkpoint of step [0-9]*: cannot write disk/ck/step_.*: No space left.*; complete is disk/ck/step_0000'
    ! ls -d disk/ck/*.new 2>log | grep . || fail "half a checkpoint is left"
    rm disk/other
    resumes disk/ck dp2 ;;
file_limit)
    command -v prlimit >/dev/null || { echo "file_limit: no prlimit, skipped"; exit 77; }
    plans dp2
    start dp2 --save ck --save-every 20
    checkpointed ck
    for rank in 0 1; do prlimit --pid "$(cat pid.$rank)" --fsize=20000:20000; done
    ended 20
    reported 'rank [01], checkpoint of step [0-9]*: cannot write ck/step_.*: File too large.*; complete is ck/step_0'
    resumes ck dp2 ;;
corrupt)
    plans dp2
    run dp2 --steps 4 --save ck --save-every 2 || fail "save"
    cp -r ck cut
    cp -r ck lost
    printf '\377' | dd of=ck/step_000004/tensors-00002-of-00002.safetensors bs=1 seek=9000 conv=notrunc 2>log
    command=(mpirun -n 2 --oversubscribe dp2/run --data tokens.bin --quiet --resume ck --steps 6)
    refused 'ck/step_000004/tensors-00002-of-00002.safetensors is damaged: its checksum .*--resume ck/step_000002$'
    truncate -s -100 cut/step_000004/tensors-00001-of-00002.safetensors
    command=(mpirun -n 2 --oversubscribe dp2/run --data tokens.bin --quiet --resume cut --steps 6)
    refused 'cut/step_000004/tensors-00001-of-00002.safetensors is damaged: it has .*--resume cut/step_000002$'
    rm lost/step_000004/tensors-00001-of-00002.safetensors
    command=(mpirun -n 2 --oversubscribe dp2/run --data tokens.bin --quiet --resume lost --steps 6)
    refused 'lost/step_000004/tensors-00001-of-00002.safetensors is damaged: No such file .*--resume lost/step_000002$'
    sed -i 's/"step": 4/"step": 5/' ck/step_000004/manifest.json
    command=(mpirun -n 2 --oversubscribe dp2/run --data tokens.bin --quiet --resume ck --steps 6)
    refused 'ck/step_000004/manifest.json is damaged: its own checksum is another; .*--resume ck/step_000002$'
    run dp2 --resume ck/step_000002 --steps 6 --export a.st || fail "the one before does not go on"
    run dp2 --steps 6 --export b.st && cmp a.st b.st || fail "it goes on otherwise" ;;
plans)
    plans dp2 tp2
    command=(mpirun --oversubscribe -n 1 dp2/run --data tokens.bin : -n 1 tp2/run --data tokens.bin)
    refused 'rank 1 runs .*gpt.flow, plan tp2 for 2 ranks, but rank 0 runs .*gpt.flow, plan dp2 for 2: start all ranks from one output' ;;
binaries)
    build dp2 dp2
    build copy dp2
    build other dp2 --set lr=2e-2
    mpirun --oversubscribe -n 1 dp2/run --data tokens.bin --steps 2 --quiet : -n 1 copy/run --data tokens.bin --steps 2 --quiet ||
        fail "two copies of one output do not run together"
    command=(mpirun --oversubscribe -n 1 dp2/run --data tokens.bin : -n 1 other/run --data tokens.bin)
    refused 'rank 1 runs another build of .*gpt.flow, plan dp2, than rank 0' ;;
arguments)
    plans dp2
    command=(mpirun --oversubscribe -n 1 dp2/run --data tokens.bin --steps 3 : -n 1 dp2/run --data tokens.bin --steps 4)
    refused 'rank 1 was started with other arguments than rank 0' ;;
ranks)
    plans dp2
    for n in 1 3; do
        command=(mpirun --oversubscribe -n $n dp2/run --data tokens.bin)
        refused '.*gpt.flow was compiled with plan dp2 for 2 ranks, but .*: use mpirun -n 2'
    done
    # what an unset variable of a shell gives, before the first step
    for option in --save --export --metrics; do
        status=0
        run dp2 --steps 1 "$option" "" >out 2>&1 || status=$?
        [ $status != 0 ] && grep -q "an empty name for $option" out || { cat out; fail "$option takes an empty name"; }
    done
    command=(env FL_TIMEOUT=soon mpirun --oversubscribe -n 2 dp2/run --data tokens.bin --steps 1)
    refused "FL_TIMEOUT is 'soon': it takes seconds, 0 for ever" ;;
no_shared)
    plans dp2
    mkdir here there
    command=(mpirun --oversubscribe -n 1 -wdir "$PWD/here" "$PWD/dp2/run" --data "$PWD/tokens.bin" --save ck --steps 2 :
        -n 1 -wdir "$PWD/there" "$PWD/dp2/run" --data "$PWD/tokens.bin" --save ck --steps 2)
    refused '--save ck: rank 1 on .* does not see what rank 0 made there: all ranks need one directory'
    [ -z "$(ls -A here there | grep -v :)" ] || fail "something is left: $(ls -A here there)"
    (cd here && cp ../tokens.bin . && run ../dp2 --steps 2 --save ck) || fail "save"
    command=(mpirun --oversubscribe -n 1 -wdir "$PWD/here" "$PWD/dp2/run" --data "$PWD/tokens.bin" --resume ck :
        -n 1 -wdir "$PWD/there" "$PWD/dp2/run" --data "$PWD/tokens.bin" --resume ck)
    refused '--resume ck: rank 1 on .* does not see ck/step_000002' ;;
asked)
    plans dp2_tp2
    start dp2_tp2 --save ck --steps 3000 --metrics m.jsonl
    trains m.jsonl
    mpirun=$(grep -l "^PPid:[[:space:]]*$job\$" /proc/[0-9]*/status 2>/dev/null | tr -dc '0-9\n')
    kill -USR1 "$mpirun" || fail "where is mpirun?"
    wait $job || { cat out; fail "exit code $?"; }
    at=$(sed -n 's/.*"step": *\([0-9]*\).*/\1/p' "ck/$(cat ck/latest)/manifest.json")
    grep -q "^flow: asked to stop: the checkpoint of step $at is in ck" out && [ "$at" -lt 3000 ] || { cat out; fail "at $at"; }
    run dp2_tp2 --resume ck --steps $((at + 10)) --export a.st || fail "resume"
    run dp2_tp2 --steps $((at + 10)) --export b.st && cmp a.st b.st || fail "it goes on otherwise" ;;
esac
cd /
[ $row != disk_full ] || { umount "$work/disk"; trap - EXIT; }
rm -rf "$work"
