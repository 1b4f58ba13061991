# Sourced by the scripts of accidents with FLOWC, REPO and WORK: builds of the GPT example at a small size, runs in the
# background whose ranks' process numbers are known, and what is said about them.
. "$repo/scripts/mpi-env.sh"
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 1
export OMP_NUM_THREADS=1
fail() { echo "$row: $*"; exit 1; }
size="--set N=16 --set T=8 --set V=61 --set D=16 --set H=4 --set L=4 --set M=2 --set warmup=2 --set lr=1e-2 --set steps=100000"
perl -e 'my $s = 7; print pack("v*", map { $s = ($s * 1103515245 + 12345) & 0x7fffffff; ($s >> 16) % 61 } 1 .. 3000)' >tokens.bin
build() { # NAME PLAN flags..
    # shellcheck disable=SC2086
    "$flowc" "$repo/examples/gpt/gpt.flow" --plan "$2" $size "${@:3}" -o "$1" --target cpu 2>log || { cat log; fail "$1 does not compile"; }
    make -s -C "$1" -j2 ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"} >log 2>&1 || { cat log; fail "$1: make"; }
}
plans() { for plan; do build "$plan" "$plan"; done; }
ranks() { sed -n 's/^RANKS := //p' "$1/Makefile"; }
run() { timeout "${PATIENCE:-100}" mpirun -n "$(ranks "$1")" --oversubscribe "$1/run" --data tokens.bin --quiet "${@:2}"; } # NAME args..
# start NAME args..: in the background; job and pid.RANK tell of it once it runs. What it says goes to out.
start() {
    rm -f pid.*
    timeout "${PATIENCE:-100}" mpirun -n "$(ranks "$1")" --oversubscribe sh -c 'echo $$ >pid.$OMPI_COMM_WORLD_RANK; exec "$@"' sh "$1/run" \
        --data tokens.bin --quiet "${@:2}" >out 2>&1 &
    job=$!
    local n
    n=$(ranks "$1")
    for try in $(seq 200); do
        [ "$(cat pid.* 2>/dev/null | wc -l)" = "$n" ] && return
        sleep 0.05
    done
    fail "it does not start"
}
checkpointed() { # DIR: waits until one is there
    for try in $(seq 400); do
        [ ! -e "$1/latest" ] || return 0
        sleep 0.05
    done
    cat out
    fail "no checkpoint comes"
}
trains() { # METRICS: waits until the run in the background makes one more step than it has
    local lines
    lines=$(cat "$1" 2>/dev/null | wc -l)
    for try in $(seq 400); do
        [ "$(cat "$1" 2>/dev/null | wc -l)" -le "$lines" ] || return 0
        sleep 0.05
    done
    cat out
    fail "it makes no further step"
}
# ended SECONDS: the run in the background ends by then, with another exit code than 0
ended() {
    local status=0 before=$SECONDS
    wait $job || status=$?
    [ $status != 0 ] && [ $status != 124 ] || { cat out; fail "exit code $status"; }
    [ $((SECONDS - before)) -le "$1" ] || { cat out; fail "it takes $((SECONDS - before)) s to end"; }
}
# One report: a line with the fact, and only lines below it that say who is where.
reported() { # WORDS
    grep -q "^flow: $1" out || { cat out; fail "nobody says '$1'"; }
    [ "$(grep -c '^flow: [^ ]' out)" = 1 ] || { cat out; fail "not one report"; }
}
arrived() { grep -q 'arrived at .*gpt.flow:[0-9]* in .*, waiting .* for .*rank' out || { cat out; fail "it does not say who waits where"; }; }
# resumes DIR NAME: it goes on from there, five steps
resumes() {
    local at
    at=$(sed -n 's/.*"step": *\([0-9]*\).*/\1/p' "$1/$(cat "$1/latest")/manifest.json")
    run "$2" --resume "$1" --steps $((at + 5)) --metrics resumed.jsonl >log 2>&1 || { cat log; fail "it does not resume"; }
    [ "$(sed -n 's/.*"step": \([0-9]*\).*/\1/p' resumed.jsonl | grep -v eval | tail -n 1)" = $((at + 5)) ] || fail "it resumes elsewhere"
    rm resumed.jsonl
}
