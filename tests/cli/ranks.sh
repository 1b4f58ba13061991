#!/bin/sh
# ranks.sh FLOWC MLP.flow: mpirun with the wrong number of processes ends in one clear line and status 3. The output
# builds its own runtime here, which no test needs fast.
. "$(dirname "$0")/../../scripts/mpi-env.sh"
flowc=$1 file=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
"$flowc" "$file" --plan dp2 --target cpu -o out || exit 1
make -C out -j2 CFLAGS=-O1 >make.log 2>&1 || { tail -20 make.log; exit 1; }
head -c 20000 "$file" >input.bin
bad=0
for n in 1 3; do
    mpirun -n $n out/run --steps 1 >text 2>&1
    status=$?
    lines=$(grep -c '2 ranks' text)
    [ $status -eq 3 ] || { echo "mpirun -n $n ended with $status, not 3"; bad=1; }
    [ "$lines" -eq 1 ] || { cat text; echo "mpirun -n $n: $lines lines speak of the 2 ranks"; bad=1; }
done
exit $bad
