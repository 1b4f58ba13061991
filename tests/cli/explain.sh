#!/bin/sh
# explain.sh FLOWC diag.def: every code has a page, and the program on the page gets that very diagnostic.
flowc=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
codes=$(sed -n 's/^DIAG(\([EW]\)_[A-Z_]*, *\([0-9]*\),.*/\1 \2/p' "$2" | while read -r letter n; do printf '%s%04d ' "$letter" "$n"; done)
[ -n "$codes" ] || { echo "no codes in $2"; exit 1; }
bad=0 without=
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
done
[ "$without" = " E0206 E0605" ] || { echo "pages without an example:$without"; bad=1; }
exit $bad
