#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests.
#   scripts/test.sh             everything (at most 30 minutes on two cores)
#   scripts/test.sh quick       the fast part (at most 3 minutes)
#   scripts/test.sh sanitize    the compiler's tests under AddressSanitizer and UBSan
#   scripts/test.sh -R REGEX    further arguments go to ctest
set -eu
cd "$(dirname "$0")/.."
scripts/install.sh test
build=build options="-DFLOWC_WERROR=ON" select=""
case "${1:-}" in
quick) select="-LE slow|long"; shift ;;
sanitize) build=build-sanitize options="-DFLOWC_WERROR=ON -DFLOWC_SANITIZE=ON" select="-LE slow|run"; shift ;;
esac
cmake -S . -B "$build" $options >/dev/null
cmake --build "$build" -j "$(nproc)"
. scripts/mpi-env.sh
# Ranks wait for each other, for disks and for timers most of the time: two tests a core keep the cores busy.
ctest --test-dir "$build" --output-on-failure -j "$((2 * $(nproc)))" $select "$@"
