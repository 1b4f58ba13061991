#!/bin/bash
# giant.sh FLOWC FILE REFUSED RANKS DIR: a plan for thousands of ranks is laid out, proved to be free of hangs and compared
# with one device, within 60 s and 4 GiB, and written for all ranks in 60 s more. The plan REFUSED of the same file does
# not fit; what the message advises is tried, and fits.
flowc=$1 file=$2 refused=$3 ranks=$4 work=$5
rm -rf "$work"
mkdir -p "$work" || exit 1
fail() { echo "$1"; cat "$work/said"; exit 1; }
ulimit -v 4194304

timeout 60 "$flowc" "$file" --check --verify >"$work/said" 2>&1 || fail "not checked in 60 s and 4 GiB"
grep -q '^verified: all ranks compute what one does' "$work/said" || fail "not compared with one device"
grep -q "^measured: with results rounded to bf16, the loss parts from one rank's by" "$work/said" || fail "what rounding does is not said"
[ "$(wc -l <"$work/said")" -eq 2 ] || fail "more is said than that"
timeout 60 "$flowc" "$file" --no-verify -o "$work/out" >"$work/said" 2>&1 || fail "not written in 60 s"
[ "$(find "$work/out" -maxdepth 1 -name 'rank_*.c' | wc -l)" -eq "$ranks" ] || fail "not a file for each of $ranks ranks"
rm -rf "$work/out"

"$flowc" "$file" --plan "$refused" --check >"$work/said" 2>&1 && fail "plan $refused fits"
grep -q 'needs .* GiB, more than the 80.00 GiB' "$work/said" || fail "no word about 80 GiB"
line=$(sed -n 's/^help: [^`]*`\([^`]*\)`.*/\1/p' "$work/said")
[ -n "$line" ] || fail "no advice"
sed "/^plan $refused {/a\\    $line" "$file" >"$work/mended.flow"
timeout 60 "$flowc" "$work/mended.flow" --plan "$refused" --check --no-verify >"$work/said" 2>&1 || fail "with $line it does not fit"
