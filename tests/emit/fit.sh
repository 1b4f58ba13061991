#!/usr/bin/env bash
# fit.sh FLOWC WORK: the placement solver on small problems: nothing that lives at once overlaps, heights are as expected,
# the capacity in the name is the exit status.
set -eu
flowc=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
cd "$work"
check() {                                                  # FILE HEIGHT
    "$flowc" --allocate "$1" > out || [ "${3:-0}" = 1 ]
    awk -F, -v want="$2" '
        NR == 1 { if ($0 != "id,lower,upper,size,offset") exit 1; next }
        /^# height/ { split($0, h, " "); height = h[3]; next }
        { n++; lo[n] = $2; up[n] = $3; size[n] = $4; at[n] = $5; top = $5 + $4 > top ? $5 + $4 : top }
        END { for (i = 1; i <= n; i++) for (j = 1; j < i; j++)
                if (lo[i] < up[j] && lo[j] < up[i] && at[i] < at[j] + size[j] && at[j] < at[i] + size[i]) {
                    print "overlap", i, j; exit 1 }
              if (height != top || height != want) { print "height", height, "of", top, "wanted", want; exit 1 } }' out
}
printf 'id,lower,upper,size\n0,0,4,8\n1,4,9,8\n2,0,9,4\n' > a.12.csv
check a.12.csv 12
printf 'id,lower,upper,size\n0,0,2,6\n1,1,4,2\n2,3,6,6\n3,0,6,1\n4,2,2,5\n' > b.csv
check b.csv 9
"$flowc" --allocate a.12.csv > out
sed 's/8$/9/' a.12.csv > c.12.csv
status=0
"$flowc" --allocate c.12.csv > out || status=$?
[ "$status" = 1 ]                                          # over the capacity in the name
status=0
"$flowc" --allocate missing.csv > out 2> message || status=$?
[ "$status" = 2 ]
