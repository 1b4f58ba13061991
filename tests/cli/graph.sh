#!/bin/sh
# graph.sh FLOWC MLP.flow JSON_CHECK: --emit=dot and --emit=json of the smallest program are those recorded, and the second is JSON.
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
exit $bad
