#!/bin/sh
# json.sh FLOWC JSON_CHECK GPT.flow BAD.flow..: what is said as JSON is JSON, and says the same as the text.
flowc=$1 check=$2 gpt=$3
shift 3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
bad=0
for file; do
    cd "$(dirname "$file")" || exit 1
    # shellcheck disable=SC2046
    set -- "$(basename "$file")" --check $(sed -n '1s/^# args: //p' "$file")
    "$flowc" "$@" 2>"$work/text"
    "$flowc" "$@" --diagnostics=json 2>"$work/json"
    said=$("$check" severity code message place.file place.line place.column labels notes help <"$work/json") || bad=1
    want=$(grep -c '^[a-z]*\[[EW]' "$work/text")
    [ "$said" = "$want" ] || { echo "$file: $want messages as text, $said as JSON"; bad=1; }
done
for name in comm schedule memory prove; do
    for plan in single dp2_tp2_pp2; do
        "$flowc" "$gpt" --plan $plan --emit=$name,json >"$work/json"
        said=$("$check" plan <"$work/json") && [ "$said" = 1 ] || { echo "--emit=$name,json under $plan is no JSON with a plan"; bad=1; }
    done
done
exit $bad
