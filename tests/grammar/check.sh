#!/bin/sh
# check.sh PARSE_DUMP CASE.flow: the parser's output equals CASE.expected, and the lines with an error are exactly those
# that say `# error here` (an error at the end of the file has no line to say it). BLESS=1 writes CASE.expected.
dump=$1
folder=$(dirname "$2")
case=$(basename "$2" .flow)
cd "$folder" || exit 1
actual=$(mktemp) || exit 1
trap 'rm -f "$actual"' EXIT
"$dump" "$case.flow" >"$actual" 2>&1
status=$?
if [ "$status" -gt 1 ]; then
    cat "$actual"
    echo "check.sh: parse_dump ended with $status"
    exit 1
fi
if [ -n "$BLESS" ]; then
    cat "$actual" >"$case.expected"
fi
last=$(wc -l <"$case.flow")
marked=$(grep -n '# error here' "$case.flow" | cut -d: -f1 | sort -nu)
found=$(sed -n "s/^ *--> $case\.flow:\([0-9]*\):.*/\1/p" "$actual" | awk -v last="$last" '$1 <= last' | sort -nu)
if [ "$marked" != "$found" ]; then
    cat "$actual"
    echo "check.sh: lines marked '# error here':" $marked
    echo "check.sh: lines with an error:       " $found
    exit 1
fi
diff -u "$case.expected" "$actual"
