#!/bin/sh
# graph.sh FLOWC MLP.flow JSON_CHECK: --emit=dot and --emit=json of the smallest program are those recorded, and the second
# is JSON, whatever the file is called.
# BLESS=1 records them.
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
bad=0
for name in dot json; do
    "$1" "$2" --plan dp2 --emit=$name >"$work/$name" || bad=1
    [ -z "$BLESS" ] || cp "$work/$name" "$here/mlp.$name"
    diff "$here/mlp.$name" "$work/$name" || bad=1
done
"$3" nodes <"$work/json" >"$work/said" || { echo "no JSON"; bad=1; }
odd=$(printf 'a"b\\c\377.flow')
cp "$2" "$work/$odd"
(cd "$work" && "$1" "$odd" --plan dp2 --emit=json >json 2>said) || { cat "$work/said"; bad=1; }
"$3" nodes <"$work/json" >"$work/said" || { echo "no JSON of a file with quotes in its name"; bad=1; }
grep -q 'a\\"b\\\\c?.flow:' "$work/json" || { grep -m1 where "$work/json"; echo "the name is lost"; bad=1; }
exit $bad
