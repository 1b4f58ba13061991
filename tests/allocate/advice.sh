#!/usr/bin/env bash
# advice.sh FLOWC WORK PROGRAM: a plan over its limit is refused in at most eight lines, and what the message says would
# fit does fit, at the figure it gives.
set -eu
flowc=$1 work=$2 program=$3
rm -rf "$work"
mkdir -p "$work"
cd "$work"
limit() { sed "s/^plan $1 {/& memory $2 per rank; $3/" "$program" > limited.flow; }      # PLAN SIZE MORE
refused() {                                                # PLAN: into `message`, a single error of eight lines at most
    local status=0
    "$flowc" limited.flow --plan "$1" --target cpu --check 2> message || status=$?
    [ "$status" = 1 ] && [ "$(grep -c '^error' message)" = 1 ] && [ "$(grep -c . message)" -le 8 ] || { cat message; exit 1; }
}
fits() {                                                   # PLAN FILE MIB
    "$flowc" "$2" --plan "$1" --target cpu --check || { echo "the advice does not fit"; exit 1; }
    "$flowc" "$2" --plan "$1" --target cpu --emit=memory |
        awk -v want="$3" '/bytes per rank/ { b = $3 + 0 > b ? $3 + 0 : b }
            END { b /= 1048576; if (b < want - 1 || b > want + 1) { print b " MiB, promised " want; exit 1 } }'
}
promised() { sed -n "s/.*\`$1\` (\([0-9.]*\) MiB).*/\1/p" message | head -1; }
limit dp2 "600 MiB" ""
refused dp2
grep -q '^error\[E0701\]: rank 0 (stage 0) needs 6.. MiB, more than the 600 MiB' message
grep -q '^note: .* MiB (saved activations, limited.flow:[0-9]*)' message
mb=$(promised 'microbatches 8 over N') recompute=$(promised 'recompute h\[\*\]')
[ -n "$mb" ] && [ -n "$recompute" ] || { cat message; exit 1; }
sed '/^plan dp2 {/,/^}/s/microbatches M over N/microbatches 8 over N/' limited.flow > more.flow
fits dp2 more.flow "$mb"
limit dp2 "600 MiB" "recompute h[*];"
fits dp2 limited.flow "$recompute"
limit single "480 MiB" ""
refused single
offload=$(promised 'offload activations to host')
if [ -z "$offload" ]; then cat message; exit 1; fi
limit single "480 MiB" "offload activations to host;"
fits single limited.flow "$offload"
# shares of optimizer states, of more where that is not enough, with recompute where neither fits alone
shares() {                                                 # MIB LEVEL RECOMPUTE
    limit dp2 "$1 MiB" ""
    refused dp2
    local line="shard $2 over dp" size
    size=$(promised "$line${3:+\` and \`recompute h\[\*\]}")
    [ -n "$size" ] || { cat message; exit 1; }
    limit dp2 "$1 MiB" "$line; ${3:+recompute h[*];}"
    fits dp2 limited.flow "$size"
}
shares 620 optimizer ""
if grep -q 'shard gradients' message; then cat message; exit 1; fi
shares 540 gradients ""
shares 490 parameters ""
shares 405 optimizer recompute
grep -q 'this fits' message
limit dp2 "300 MiB" "shard optimizer over dp;"              # the plan has its line: none is offered
refused dp2
if grep -q 'help.*shard ' message; then cat message; exit 1; fi
limit tp2 "400 MiB" ""
refused tp2
tp=$(promised 'tp: 4')
[ -n "$tp" ] || { cat message; exit 1; }
sed '/^plan tp2 {/,/^}/s/tp: 2/tp: 4/' limited.flow > more.flow
fits tp2 more.flow "$tp"
limit dp2 "10 MiB" ""
refused dp2
grep -q '^help: nothing that was tried fits; the nearest is ' message
limit dp2 "0 GiB" ""
refused dp2
grep -q 'a limit of no memory at all' message
