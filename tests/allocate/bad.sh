#!/bin/sh
# bad.sh FLOWC WORK: files that are no placement problem are refused with status 2 and a line number, and nothing is printed;
# a solution over the capacity in the name is status 1.
flowc=$1 work=$2 bad=0
rm -rf "$work"
mkdir -p "$work" || exit 1
cd "$work" || exit 1
status() { # STATUS FILE LINES: lines after the heading
    printf "id,lower,upper,size\n$3" >"$2"
    "$flowc" --allocate "$2" >out 2>said
    got=$?
    [ $got = "$1" ] || { echo "$2: status $got, not $1"; cat out said; bad=1; }
    [ "$1" != 2 ] || { [ ! -s out ] && grep -q "line 2 is not" said; } || { echo "$2: said"; cat out said; bad=1; }
}
status 0 two.128.csv '0,0,2,64\n1,1,3,64\n'
status 1 two.100.csv '0,0,2,64\n1,1,3,64\n'
status 0 apart.64.csv '0,0,2,64\r\n1,2,3,64\r\n'
status 0 none.csv ''
status 2 backward.csv '0,3,2,64\n'
status 2 negative.csv '0,0,2,-5\n'
status 2 short.csv '0,0,2\n'
status 2 junk.csv '0,0,2,64x\n'
status 2 wide.csv '0,0,2,99999999999999999999\n'
status 2 sum.csv '0,0,2,4611686018427387904\n1,0,2,4611686018427387904\n'
exit $bad
