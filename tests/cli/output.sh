#!/bin/sh
# output.sh FLOWC GOOD.flow BAD.flow: -o writes all or nothing, replaces its own output, and touches nothing else.
flowc=$1 good=$2 wrong=$3
work=$(mktemp -d) || exit 1
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work" || exit 1
bad=0
expect() {                                # expect STATUS WHAT COMMAND..
    want=$1 what=$2
    shift 2
    "$@" >/dev/null 2>messages
    status=$?
    [ $status -eq $want ] || { cat messages; echo "$what: ended with $status, not $want"; bad=1; }
}
only() {                                  # only NAME..: nothing but these is here
    left=$(ls -A | grep -v '^messages$' | tr '\n' ' ')
    [ "$left" = "${*:+$* }" ] || { echo "left behind: $left; expected: $*"; bad=1; }
}
expect 1 "a wrong program" "$flowc" "$wrong" --target cpu -o out
only
expect 0 "a good program" "$flowc" "$good" --target cpu -o out
only out
cp -r out first
touch out/stale.c
expect 0 "over its own output" "$flowc" "$good" --target cpu -o out/
diff -r first out || bad=1
expect 1 "a wrong program over an older output" "$flowc" "$wrong" --target cpu -o out
diff -r first out || bad=1
expect 0 "--check" "$flowc" "$good" --check -o checked
grep -q "'checked' is not written" messages || { echo "--check does not say that it writes nothing"; bad=1; }
only first out
rm -rf first out
mkdir mine && echo precious >mine/file
expect 1 "over a stranger's directory" "$flowc" "$good" --target cpu -o mine
grep -q "E0801.*'mine' exists" messages || { cat messages; bad=1; }
[ "$(cat mine/file)" = precious ] || { echo "a stranger's file was touched"; bad=1; }
only mine
echo text >plain
expect 1 "over a file" "$flowc" "$good" --target cpu -o plain
expect 1 "beneath a file" "$flowc" "$good" --target cpu -o plain/out
grep -q "E0801.*cannot create 'plain/out'" messages || { cat messages; bad=1; }
[ "$(cat plain)" = text ] || { echo "a file was touched"; bad=1; }
expect 0 "in a directory that is not there" "$flowc" "$good" --target cpu -o not/there/yet/
[ -f not/there/yet/Makefile ] || { echo "nothing was written into a directory that was not there"; bad=1; }
rm -rf not
only mine plain
mkdir empty
expect 0 "over an empty directory" "$flowc" "$good" --target cpu -o empty
[ -f empty/Makefile ] || { echo "nothing was written into an empty directory"; bad=1; }
if [ "$(id -u)" -ne 0 ]; then
    mkdir locked && chmod a-w locked
    expect 1 "in a directory that may not be written" "$flowc" "$good" --target cpu -o locked/out
fi
exit $bad
