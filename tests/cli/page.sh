#!/bin/sh
# page.sh FLOWC PAGE.md FILE.flow PLAN: every line that the page shows of a dump or of the emitted program is there. Such
# lines are indented and no commands; what stands before "..." counts.
flowc=$1 page=$2 file=$3 plan=$4
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
for name in elaborate differentiate logical sbp box comm physical schedule memory prove; do
    "$flowc" "$file" --plan "$plan" --emit=$name || exit 1
done >"$work/all"
"$flowc" "$file" --plan "$plan" -o "$work/out" --target cpu || exit 1
cat "$work/out"/class_*.c >>"$work/all"
shown=0 bad=0
sed -n 's/^    *//p' "$page" | grep -v '^build/\|^make \|^mpirun ' | sed 's/,* *\.\.\..*//' >"$work/shown"
while IFS= read -r line; do
    shown=$((shown + 1))
    grep -qF -- "$line" "$work/all" || { echo "not so: $line"; bad=1; }
done <"$work/shown"
[ $shown -ge 8 ] || { echo "only $shown lines are shown"; bad=1; }
exit $bad
