#!/usr/bin/env bash
# pieces.sh FLOWC WORK: rectangles cut into pieces, shuffled: the packing that uses every byte of every moment is found.
# Some have what a search may trip over: pieces without size or life, twins, one that lives all the time.
set -eu
. "$(dirname "$0")/check.sh"
flowc=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
cd "$work"
cut() {                                                    # SEED WIDTH HEIGHT PIECES
    awk -v seed="$1" -v w="$2" -v h="$3" -v n="$4" '
        function random(m) { seed = (seed * 16807) % 2147483647; return seed % m }
        BEGIN {
            seed = seed * 7919 + 12345
            x0[0] = 0; x1[0] = w; y0[0] = 0; y1[0] = h; count = 1
            for (tries = 0; count < n && tries < 100 * n; tries++) {
                i = random(count); k = count
                if (random(2) && x1[i] - x0[i] > 1) {
                    at = x0[i] + 1 + random(x1[i] - x0[i] - 1)
                    x0[k] = at; x1[k] = x1[i]; y0[k] = y0[i]; y1[k] = y1[i]; x1[i] = at; count++
                } else if (y1[i] - y0[i] > 1) {
                    at = y0[i] + 1 + random(y1[i] - y0[i] - 1)
                    x0[k] = x0[i]; x1[k] = x1[i]; y0[k] = at; y1[k] = y1[i]; y1[i] = at; count++
                }
            }
            print "id,lower,upper,size"
            for (i = count - 1; i > 0; i--) {
                j = random(i + 1)
                t = x0[i]; x0[i] = x0[j]; x0[j] = t; t = x1[i]; x1[i] = x1[j]; x1[j] = t
                t = y0[i]; y0[i] = y0[j]; y0[j] = t; t = y1[i]; y1[i] = y1[j]; y1[j] = t
            }
            for (i = 0; i < count; i++)
                printf "%d,%d,%d,%d\n", i, x0[i], x1[i], y1[i] - y0[i]
        }'
}
perfect() {                                                # PROBLEM: named after its height
    solve "$flowc" "$1"
    [ "$status" = 0 ] || { echo "$1: height $height of $bound"; exit 1; }
}
for seed in $(seq 1 60); do
    high=$((8 + seed % 5 * 8))
    cut "$seed" $((5 + seed % 30)) "$high" $((6 + seed % 25)) > "p$seed.$high.csv"
    perfect "p$seed.$high.csv"
done
for seed in 1 2 3 4; do
    cut "$seed" 400 100000 60 > "large$seed.100000.csv"
    perfect "large$seed.100000.csv"
done
{ cut 5 20 20 12; printf '90,3,7,0\n91,5,5,9\n92,0,20,4\n93,0,20,4\n'; } > odd.28.csv
perfect odd.28.csv
{ cut 5 20 20 12; printf '90,4,8,1\n'; } > over.20.csv                    # a byte more than there is room for
solve "$flowc" over.20.csv
[ "$status" = 1 ] && [ "$height" -gt 20 ] || { echo "over its capacity, status $status"; exit 1; }
cut 9 300 5000 50 > free.csv                                              # no capacity in the name
solve "$flowc" free.csv
[ "$status" = 0 ] && [ "$height" -le $((bound + bound / 100)) ] || { echo "height $height, bound $bound"; exit 1; }
