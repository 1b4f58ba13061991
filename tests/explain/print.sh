#!/bin/sh
# print.sh FLOWC NAME FILE.flow ARGS..: what flowc prints equals NAME.expected beside this script. BLESS=1 writes it.
flowc=$1 name=$2 file=$3
shift 3
expected=$(cd "$(dirname "$0")" && pwd)/$name.expected
cd "$(dirname "$file")" || exit 1
got=$(mktemp) || exit 1
trap 'rm -f "$got"' EXIT
"$flowc" "$(basename "$file")" "$@" >"$got" || exit 1
[ -z "$BLESS" ] || cp "$got" "$expected"
diff -u "$expected" "$got"
