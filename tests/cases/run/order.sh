#!/usr/bin/env bash
# order.sh FLOWC CHECK_PLAN CASES WORK ROW: rows about orders that must end, on more ranks than there are cores. The order of
# each plan is sound to the checker that knows plan.json only; it runs to its end; its losses are those of one rank.
#   H1 H2 H5 H8 R3 R4   plans of the file of the row
#   H4   links and communicators are made before the first step, by all ranks in the order of one list
#   H10  a file that is too short for one batch stops all ranks before the first step
#   H11  5 samples and 10, of which only whole global batches are taken, whatever the ranks
#   H12  a checkpoint of split weights on two stages, written by all ranks and read under another plan
#   R6   a stopped rank ends the job with a report; slow ranks do not
#   T1   the arena of each stage's program is the number of the plan
#   K11  the loss is printed once a step, by one rank, and is that of one rank, wherever it is computed
set -eu
. "$(dirname "$0")/../../../scripts/mpi-env.sh"
flowc=$1 check_plan=$2 cases=$3 work=$4 row=$5
rm -rf "$work"
mkdir -p "$work"
cd "$work"
export OMP_NUM_THREADS=1 FL_TIMEOUT=60
fail() { echo "$row: $*"; exit 1; }
floats() { awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) printf "%c%c%c%c", 1, 1, i * 37 % 127 + 1, 61 + i % 2 }'; }
build() { # FILE plan..
    file=$1
    shift
    for plan; do
        "$flowc" "$file" --plan "$plan" -o "$plan" --target cpu 2>log || { cat log; fail "$plan does not compile"; }
        "$check_plan" "$plan/plan.json" >log || { cat log; fail "the order of $plan is not sound"; }
        make -s -C "$plan" -j2 ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"} >log 2>&1 || { cat log; fail "$plan: make"; }
    done
}
run() { # plan ranks args..
    timeout 100 mpirun -n "$2" --oversubscribe "$1/run" --metrics "$1.jsonl" "${@:3}" >"$1.out" 2>&1 ||
        { tail -20 "$1.out"; fail "$*"; }
    sed -n 's/.*"loss": *\([-+.e0-9]*\).*/\1/p' "$1.jsonl" >"$1.loss"
}
near() { # the plan's losses are those of `one`
    [ "$(wc -l <"$1.loss")" = "${2:-4}" ] || fail "$1: not ${2:-4} steps"
    paste one.loss "$1.loss" | awk 'NF != 2 || ($1 - $2) ^ 2 > 1e-10 * (1 + $1 ^ 2) { print; bad = 1 } END { exit bad }' ||
        fail "$1: other losses than on one rank"
}
agree() { # FILE plan:ranks..
    build "$1" one $(printf '%s\n' "${@:2}" | sed 's/:.*//')
    run one 1
    for plan in "${@:2}"; do
        run "${plan%:*}" "${plan#*:}"
        near "${plan%:*}"
    done
}
floats 4096 >x.bin
case $row in
H1) agree "$cases/H1.flow" one_f_one_b:8 zb_v:8 uneven:8 ;;
H2) agree "$cases/H2.flow" steady:4 few:4 chunks:4 ;;
H5) agree "$cases/H5.flow" v2:2 vee:2 ;;
H8) agree "$cases/H8.flow" gradients:4 stages:8 ;;
R3) agree "$cases/R3.flow" grid:4 ;;
R4)
    awk 'BEGIN { for (i = 0; i < 200; i++) printf "%c%c", 1 + i * 7 % 5, 0 }' | tr '\001-\005' '\000-\004' >x.bin
    agree "$cases/R4.flow" table:4 nothing:6 head:4 ;;
H4)
    # One list of communicators and links in the program of all ranks, made by all in its order before the first step; no
    # step makes one. The links are those of the schedule, each once.
    for target in cpu cuda; do
        "$flowc" "$cases/H2.flow" --plan chunks --target $target -o $target 2>log || { cat log; fail "it does not compile"; }
        ! grep -l 'fl_comm_new\|fl_link_new\|Comm_split\|ncclCommInit' $target/class_* $target/rank_* ||
            fail "$target: a rank's program makes communicators"
        listed=$(sed -n '/fl_link_spec links/,/^};/p' $target/program.c* | grep -c '^    {"')
        "$flowc" "$cases/H2.flow" --plan chunks --target $target --emit=schedule >schedule
        [ "$listed" = "$(grep -c '^link ' schedule)" ] && [ "$listed" -gt 6 ] || fail "$target: $listed links in the list"
    done
    sed -n '/^int main/,/^}/p' cpu/runtime/main.c | grep -n 'connect_ranks\|fl_loop' | tr '\n' ' ' | grep -q 'connect_ranks.*fl_loop' ||
        fail "the first step comes before the links" ;;
H10)
    build "$cases/H8.flow" gradients
    floats 20 >x.bin                                    # five rows; a batch has eight
    if timeout 60 mpirun -n 4 --oversubscribe gradients/run >out 2>&1; then fail "it trains on a batch that is not there"; fi
    grep -q 'x.bin' out && grep -q '32' out || { cat out; fail "the message does not name the file and the batch"; }
    ! grep -q 'step 1/' out || fail "a step is done before it stops" ;;
H11)
    for rows in 5:4:2 10:6:3 10:4:2; do                 # rows in the file, in a batch, ranks
        IFS=: read -r have batch ranks <<<"$rows"
        floats $((have * 4)) >x.bin
        cat >rows.flow <<FLOW
dim N = $batch, D = 4
model Net(x: f32[N, D]) {
    param w: f32[D, D] = normal(std = 0.4)
    return sum(square(tanh(x @ w))) / N
}
plan one { mesh m = [dp: 1]; microbatches 2 over N }
plan many { mesh m = [dp: $ranks]; sbp x = {dp: S(N)} }
train { data { x = raw("x.bin", f32) }; steps 4; optimizer sgd { lr = 0.0 } }
FLOW
        agree rows.flow many:$ranks
        # without a step in the weights, the losses tell the batches: they come again after so many whole ones
        whole=$((have / batch))
        [ "$(sort -u one.loss | wc -l)" = $whole ] || fail "$rows: $(sort -u one.loss | wc -l) batches, not $whole"
        [ "$(sed -n 1p many.loss)" = "$(sed -n $((1 + whole))p many.loss)" ] || fail "$rows: it does not start over"
    done ;;
H12)
    cat >save.flow <<'FLOW'
dim N = 8, D = 4
layer Block(x: f32[N, D]) {
    param w: f32[D, D] = normal(std = 0.4)
    return x + tanh(x @ w)
}
model Net(x: f32[N, D]) {
    repeat 4 as i { x = h[i]: Block(x) }
    return sum(square(x)) / N
}
plan one { mesh m = [dp: 1]; microbatches 4 over N }
plan split { mesh m = [pp: 2, tp: 2]; microbatches 4 over N; pipeline over pp { schedule = zb_h1; split h }; sbp h[*].w = {tp: S(0)} }
plan uneven { mesh m = [pp: 2, tp: 3]; microbatches 4 over N; pipeline over pp { schedule = one_f_one_b; split h = [3, 1] }; sbp h[*].w = {tp: S(1) uneven} }
train { data { x = raw("x.bin", f32) }; steps 6; optimizer adamw { lr = 0.01 } }
FLOW
    build save.flow one split uneven
    run one 1
    run split 4 --steps 3 --save ck --save-every 1
    run uneven 6 --steps 5 --resume ck --save again
    run split 4 --resume again
    sed -n 6p one.loss >a && tail -n 1 split.loss >b
    paste a b | awk '($1 - $2) ^ 2 > 1e-10 { print; exit 1 }' || fail "it goes on otherwise than one rank would" ;;
K11)
    build "$cases/H2.flow" one chunks uneven
    run one 1
    for plan in chunks uneven; do
        run $plan 4
        near $plan
        [ "$(grep -c 'loss ' $plan.out)" = 4 ] || { cat $plan.out; fail "$plan: not one line a step"; }
        grep -q 'loss -1\|loss nan\|loss 0\.0000' $plan.out && fail "$plan: a rank without a loss prints one"
    done ;;
T1)
    # The arena that each stage's program says is the plan's number, and it is what is allocated: once, before the steps.
    awk 'BEGIN { for (i = 0; i < 400; i++) printf "%c%c", 1 + i * 7 % 60, 0 }' >x.bin
    agree "$cases/T1.flow" one_f_one_b:6 zb_h1:6
    for plan in one_f_one_b zb_h1; do
        "$flowc" "$cases/T1.flow" --plan $plan --target cpu --emit=memory 2>log | sed -n 's/^    arena  *\([0-9]*\).*/\1/p' >planned
        for stage in 0 1 2 3 4 5; do
            sed -n 's/.*one arena of \([0-9]*\) bytes.*/\1/p' $plan/class_$stage.c
        done >emitted
        cmp planned emitted && [ "$(wc -l <planned)" = 6 ] || fail "$plan: the programs have other arenas than the plan"
        ! grep -l 'malloc\|fl_alloc' $plan/class_*.c || fail "$plan: a step allocates"
    done ;;
R6)
    # A rank that is stopped: the others say who waits, in which call, of which line, for whom, and end. And slowness alone
    # ends nothing: sixteen ranks on one core, with a limit shorter than they take.
    build "$cases/H8.flow" gradients
    FL_TIMEOUT=3 timeout 60 mpirun -n 4 --oversubscribe sh -c 'echo $$ >pid.$OMPI_COMM_WORLD_RANK
        exec gradients/run --steps 100000000 --quiet' >out 2>&1 &
    job=$!
    for try in $(seq 100); do
        [ -s pid.0 ] && [ -s pid.1 ] && [ -s pid.2 ] && [ -s pid.3 ] && break
        sleep 0.1
    done
    sleep 2
    kill -STOP "$(cat pid.2)"
    status=0
    wait $job || status=$?
    kill -KILL "$(cat pid.2)" 2>log || true
    [ $status != 0 ] && [ $status != 124 ] || { cat out; fail "it goes on for ever ($status)"; }
    grep -q "^flow: rank 2 is stopped (process $(cat pid.2) on .*); nobody gets on for 3 s" out || { cat out; fail "the stopped rank is not named"; }
    grep -q 'arrived at .*H8.flow:[0-9]* in .*([dtp_]*) .*, waiting 3 s for .*2' out || { cat out; fail "no report of the wait"; }
    [ "$(grep -c '^flow: ' out)" -le 5 ] && [ "$(grep -c '^flow: rank' out)" = 1 ] || { cat out; fail "not one report"; }
    cat >slow.flow <<'FLOW'
dim N = 16, D = 64
model Net(x: f32[N, D]) {
    param w: f32[D, D] = normal(std = 0.1)
    return sum(square(tanh(x @ w))) / N
}
plan one { mesh m = [dp: 1] }
plan many { mesh m = [dp: 16]; sbp x = {dp: S(N)}; shard parameters over dp }
train { data { x = raw("x.bin", f32) }; steps 4; optimizer adamw { lr = 0.01 } }
FLOW
    build slow.flow one many
    run one 1
    core=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')
    FL_TIMEOUT=20 timeout 100 taskset -c "$core" mpirun -n 16 --oversubscribe many/run --metrics many.jsonl >many.out 2>&1 ||
        { tail -5 many.out; fail "slow ranks are taken for dead ones"; }
    sed -n 's/.*"loss": *\([-+.e0-9]*\).*/\1/p' many.jsonl >many.loss
    near many ;;
*) fail "no such row" ;;
esac
rm -rf "$work"
