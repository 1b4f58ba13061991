#!/bin/sh
# usage.sh FLOWC: a command line that cannot be followed ends with 2, the usage on stderr and nothing on stdout.
flowc=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
bad=0
refuses() {
    "$flowc" "$@" >"$work/out" 2>"$work/err"
    status=$?
    if [ $status -ne 2 ] || [ -s "$work/out" ] || [ ! -s "$work/err" ]; then
        cat "$work/err"
        echo "flowc $*: ended with $status, $(wc -c <"$work/out") bytes on stdout"
        bad=1
    fi
}
refuses
refuses --bogus
refuses a.flow b.flow
refuses a.flow --plan
refuses a.flow -o
refuses a.flow --target gpu
refuses a.flow --set
refuses a.flow --set D
refuses a.flow --set =3
refuses a.flow --set D=
refuses a.flow --emit=nonsense
refuses a.flow --emit=
refuses a.flow --emit=comm,xml
refuses a.flow --emit=sbp,json
refuses a.flow --emit=comm --explain x
refuses a.flow --plans --diff p
refuses a.flow --diagnostics=xml
refuses --explain-error
refuses --explain-error E9999
refuses --allocate
refuses --allocate "$work/missing.csv"

"$flowc" --help >"$work/out" || bad=1
grep -q '^usage: flowc FILE.flow' "$work/out" || { echo "--help prints no usage"; bad=1; }
"$flowc" --list-ops >"$work/out" || bad=1
for op in einsum layer_norm attention cross_entropy rope dropout; do
    grep -q "\b$op\b" "$work/out" || { echo "--list-ops lacks $op"; bad=1; }
done
# A source that is not there is the program's fault, not the command line's.
"$flowc" "$work/missing.flow" --check 2>"$work/err"
[ $? -eq 1 ] && grep -q E0801 "$work/err" || { cat "$work/err"; bad=1; }
# Output that does not arrive is an error.
if [ -c /dev/full ]; then
    "$flowc" --list-ops >/dev/full 2>"$work/err"
    [ $? -eq 1 ] && grep -q 'cannot write the output' "$work/err" || { echo "a full disk goes unseen"; cat "$work/err"; bad=1; }
fi
exit $bad
