#!/bin/sh
# examples.sh FLOWC FILE.flow: every plan is checked, and written for both targets, without a word,
# but for the note that its ranks were not compared with one because it takes long or because an op is the program's own.
flowc=$1 file=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
plans=$(sed -n 's/^plan \([A-Za-z0-9_]*\).*/\1/p' "$file")
[ -n "$plans" ] || { echo "no plans in $file"; exit 1; }
bad=0
for plan in $plans; do
    for how in --check "--target cpu -o $work/out" "--target cuda -o $work/out"; do
        # shellcheck disable=SC2086
        "$flowc" "$file" --plan "$plan" $how >"$work/said" 2>&1 || { echo "$plan $how fails"; bad=1; }
        if grep -v '^note: the plan was not compared with one rank: \(it would take\|only its own kernels compute\)' "$work/said"; then bad=1; fi
    done
done
exit $bad
