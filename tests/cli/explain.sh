#!/bin/sh
# explain.sh FLOWC diag.def MESSAGES: every code has a page, the program on the page gets that very diagnostic and mended
# as the page says compiles without it; and every code has a golden in MESSAGES.
flowc=$1 goldens=$3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
codes=$(sed -n 's/^DIAG(\([EW]\)_[A-Z_]*, *\([0-9]*\),.*/\1 \2/p' "$2" | while read -r letter n; do printf '%s%04d ' "$letter" "$n"; done)
[ -n "$codes" ] || { echo "no codes in $2"; exit 1; }
bad=0 without=
twice=$(printf '%s\n' $codes | sed 's/^.//' | sort | uniq -d)
[ -z "$twice" ] || { echo "numbers given twice: $twice"; bad=1; }
for code in $codes; do
    "$flowc" --explain-error "$code" >page || { echo "$code: no page"; bad=1; continue; }
    [ "$(wc -l <page)" -ge 4 ] || { echo "$code: the page says nothing"; bad=1; }
    sed -n 's/^    //p' page >example.flow
    if [ ! -s example.flow ]; then
        without="$without $code"
        continue
    fi
    "$flowc" example.flow --check 2>messages
    if ! grep -q "\[$code\]" messages; then
        cat example.flow messages
        echo "$code: its example does not get it"
        bad=1
    fi
    grep -q '^  + ' page || { echo "$code: the page does not say what would be right (mended.def)"; bad=1; continue; }
    awk 'NR == FNR { if (sub(/^  - /, "")) old = $0; else if (sub(/^  \+ /, "")) new = $0; next }
         $0 == old { $0 = new; used = 1 } { print } END { exit !used }' page example.flow >mended.flow ||
        { echo "$code: what is mended is not in the example"; bad=1; }
    if ! "$flowc" mended.flow --check --target cpu 2>messages || grep -q "\[$code\]" messages; then
        cat mended.flow messages
        echo "$code: its example is not mended"
        bad=1
    fi
    grep -q "\[$code\]" "$goldens"/*.expected || { echo "$code has no golden"; bad=1; }
done
[ "$without" = " E0206 E0605 E0608 W0609 E0803" ] || { echo "pages without an example:$without"; bad=1; }
exit $bad
