#!/bin/sh
# found.sh FLOWC FILE.flow: a program that once broke flowc is compiled or rejected, for every plan, in text and as JSON.
flowc=$1 file=$2
said=$(mktemp) || exit 1
trap 'rm -f "$said"' EXIT
bad=0
for plan in $(sed -n 's/^plan \([A-Za-z0-9_]*\).*/\1/p' "$file") ""; do
    for json in "" --diagnostics=json; do
        # shellcheck disable=SC2086
        "$flowc" "$file" --check ${plan:+--plan $plan} $json >"$said" 2>&1
        status=$?
        [ $status -le 1 ] || { cat "$said"; echo "plan '$plan' $json ended with $status"; bad=1; }
    done
done
exit $bad
