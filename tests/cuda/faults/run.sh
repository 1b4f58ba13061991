#!/usr/bin/env bash
# run.sh FAULTS: for each case the good program must be right under every seed, and the bad one must be found under one of
# them: by a report of the double (exit code 3), by AddressSanitizer, or by wrong numbers (exit code 1).
set -u
faults=$1 failed=0
export ASAN_OPTIONS=detect_leaks=0:exitcode=3
run() {                                  # SEED CASE RANKS good|bad
    if [ "$3" = 1 ]; then FL_DOUBLE_SEED=$1 timeout 60 "$faults" "$2" "$4"
    else FL_DOUBLE_SEED=$1 timeout 60 mpirun -n "$3" --oversubscribe "$faults" "$2" "$4"; fi
}
check() {                                # CASE RANKS
    local seeds="1 2 3 4 5" seed report code
    [ "$2" = 1 ] || seeds="1"
    for seed in $seeds; do
        FL_DOUBLE_TIMEOUT=60 run "$seed" "$1" "$2" good || { echo "$1: the good program fails with seed $seed"; return 1; }
    done
    for seed in $seeds; do
        report=$(FL_DOUBLE_TIMEOUT=2 run "$seed" "$1" "$2" bad 2>&1)
        code=$?
        if [ $code = 1 ] || [ $code = 3 ]; then
            echo "$1: found, exit code $code $(echo "$report" | grep -E -m 1 '^double:|ERROR: AddressSanitizer')"
            return 0
        fi
        [ $code = 0 ] || { echo "$report"; echo "$1: exit code $code"; return 1; }
    done
    echo "$1: not found"
    return 1
}
cases=$("$faults" --list) || exit 1
while read -r name ranks; do
    check "$name" "$ranks" </dev/null || failed=1
done <<<"$cases"
exit $failed
