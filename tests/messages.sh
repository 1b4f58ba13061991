#!/bin/sh
# messages.sh FLOWC CASE.flow: flowc rejects CASE.flow (a case called warn_* is taken, with a warning) as CASE.expected says.
# A first line `# args: ..` gives further arguments. Whatever the expected file says, these must hold:
#   - the exit status is 1 (warn_*: 0), stdout stays empty, and no output directory appears
#   - the lines with an error are exactly those marked `# error here` in the source, and the further places are those
#     marked `# and here` (a place at the end of the file, or in another file, has no line to mark)
#   - no message is longer than eight lines
# BLESS=1 writes CASE.expected: read the difference before it is committed.
flowc=$1
case=$(basename "$2" .flow)
cd "$(dirname "$2")" || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fail() {
    cat "$work/errors"
    echo "messages.sh: $*"
    exit 1
}
args=$(sed -n '1s/^# args: //p' "$case.flow")
output="-o $work/out"
want=1
case $case in warn_*) want=0 output=--check ;; esac
# shellcheck disable=SC2086
"$flowc" "$case.flow" $output --target cpu $args >"$work/stdout" 2>"$work/errors"
status=$?
[ $status -eq $want ] || fail "flowc ended with $status, not $want"
[ ! -s "$work/stdout" ] || fail "stdout is not empty"
[ -z "$(ls -A "$work" | grep out | grep -v stdout)" ] || fail "something was written under -o"
lines=$(wc -l <"$case.flow")
marked() { grep -n "# .*$1 here" "$case.flow" | cut -d: -f1 | sort -nu | tr '\n' ' '; }
found=$(sed -n "s/^ *--> $case\.flow:\([0-9]*\):.*/\1/p" "$work/errors" | awk -v n="$lines" '$1 <= n' | sort -nu | tr '\n' ' ')
# The line above a row of dashes is a further place, unless ::: says that it is in another file.
further=$(awk -v n="$lines" -v here="$case.flow" '
    /^ *(-->|:::) / { other = index($2, here ":") != 1 }
    /^ *[0-9]+ \| / { line = $1 }
    /^ *\| +-/      { if (!other && line <= n) print line }' "$work/errors" | sort -nu | tr '\n' ' ')
[ "$(marked error)" = "$found" ] || fail "marked '# error here': $(marked error); lines with an error: $found"
[ "$(marked and)" = "$further" ] || fail "marked '# and here': $(marked and); further places: $further"
awk 'BEGIN { RS = "" } { if (split($0, l, "\n") > 8) exit 1 }' "$work/errors" || fail "a message of more than eight lines"
[ -z "$BLESS" ] || cp "$work/errors" "$case.expected"
diff -u "$case.expected" "$work/errors"
