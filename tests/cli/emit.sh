#!/bin/sh
# emit.sh FLOWC FILE.flow PLAN..: --emit=NAME works for every pass and alias, prints something, prints it on stdout only,
# and prints the same bytes again. The output directory, too, comes out the same.
flowc=$1 file=$2
shift 2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
bad=0
for plan; do
    for name in parse ast elaborate differentiate rewrite logical place shard sbp box fuse layout physical schedule \
        allocate memory prove comm dot json; do
        "$flowc" "$file" --plan "$plan" --emit=$name >"$work/1" 2>"$work/err" || { echo "$plan: --emit=$name fails"; bad=1; }
        "$flowc" "$file" --plan "$plan" --emit=$name >"$work/2" 2>/dev/null
        [ -s "$work/1" ] || { echo "$plan: --emit=$name prints nothing"; bad=1; }
        [ ! -s "$work/err" ] || { cat "$work/err"; bad=1; }
        cmp -s "$work/1" "$work/2" || { echo "$plan: --emit=$name differs from run to run"; bad=1; }
    done
    for target in cpu cuda; do
        "$flowc" "$file" --plan "$plan" --target $target -o "$work/a" || bad=1
        "$flowc" "$file" --plan "$plan" --target $target -o "$work/b" || bad=1
        diff -r "$work/a" "$work/b" || bad=1
        rm -rf "$work/a" "$work/b"
    done
done
exit $bad
