#!/usr/bin/env bash
# kill_loop.sh FLOWC REPO WORK SLOW_DISK COUNT [PLAN [SEED]]: COUNT times, a run that saves after every second step loses a random
# rank to kill -9 at a random moment, on a slow disk every other time, so that most moments lie within the writing of a
# checkpoint. What is left is complete, or there was nothing yet; it goes on (or starts anew) to the end, with the
# bits of a run that nobody disturbed: weights, states, place in the data.
set -u
flowc=$1 repo=$2 work=$3 slow_disk=$4 count=$5 plan=${6:-dp2_tp2} seed=${7:-1}
row=kill_loop
. "$repo/tests/accidents/setup.sh"
RANDOM=$seed
steps=60
plans "$plan"
n=$(ranks "$plan")
run "$plan" --steps $steps --save whole --export whole.st || fail "the undisturbed run"
started=0 writing=0 resumed=0 late=0
for ((trial = 1; trial <= count; trial++)); do
    rm -rf ck ck.new
    slow=()
    [ $((trial % 2)) = 0 ] || slow=(env LD_PRELOAD="$slow_disk" SLOW_DISK=30)
    rm -f pid.*
    timeout "${PATIENCE:-100}" mpirun -n "$n" --oversubscribe sh -c 'echo $$ >pid.$OMPI_COMM_WORLD_RANK; exec "$@"' sh "${slow[@]}" "$plan/run" \
        --data tokens.bin --quiet --steps $steps --save ck --save-every 2 >out 2>&1 &
    job=$!
    for try in $(seq 400); do
        [ "$(cat pid.* 2>/dev/null | wc -l)" = "$n" ] && break
        sleep 0.02
    done
    # one in five at its start; the others once something is written
    [ $((trial % 5)) = 0 ] || until [ -e ck ] || [ -e ck.new ] || ! kill -0 $job 2>/dev/null; do sleep 0.01; done
    sleep "$(printf '0.%03d' $((RANDOM % 1000)))"
    victim=$((RANDOM % n))
    kill -KILL "$(cat pid.$victim)" 2>/dev/null
    wait $job && late=$((late + 1))
    compgen -G 'ck*/step_*.new' >/dev/null && writing=$((writing + 1))
    if [ -e ck ]; then
        resumed=$((resumed + 1))
        latest=$(cat ck/latest) && [ -e "ck/$latest/manifest.json" ] || fail "trial $trial: what is there is not complete: $(ls -R ck)"
        run "$plan" --steps $steps --resume ck --save ck --export rest.st >log 2>&1 || { cat log out; fail "trial $trial: it does not go on"; }
    else
        started=$((started + 1))
        run "$plan" --steps $steps --save ck --export rest.st >log 2>&1 || { cat log out; fail "trial $trial: it does not start anew"; }
    fi
    cmp whole.st rest.st || fail "trial $trial: other weights"
    cmp <(cat whole/step_0000$steps/tensors-*) <(cat ck/step_0000$steps/tensors-*) || fail "trial $trial: other states"
    cmp <(grep -A3 positions whole/step_0000$steps/manifest.json) <(grep -A3 positions ck/step_0000$steps/manifest.json) || fail "trial $trial: other data"
    compgen -G 'ck/*.new' >/dev/null || [ -e ck.new ] && fail "trial $trial: half a checkpoint is left: $(ls -d ck*)"
done
echo "$plan: $count runs lost a rank: $resumed went on from a checkpoint, $started had none yet, $writing died while one was" \
    "written, $late had ended before; all ended with the bits of an undisturbed run"
cd /
rm -rf "$work"
