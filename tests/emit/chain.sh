#!/usr/bin/env bash
# chain.sh FLOWC WORK: a chain of 2000 element-wise ops is cut into loops of a bounded length, which takes no time.
set -eu
flowc=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
terms=$(printf ' + w%.0s' $(seq 1 500))
cat >"$work/chain.flow" <<FLOW
dim N = 4
model M(x: f32[N]) {
    param w: f32[N] = ones
    y = x
    repeat 2 as i {
        y = 0.001 * (y$terms)
        y = 0.001 * (y$terms)
        y = 0.001 * (y$terms)
        y = 0.001 * (y$terms)
    }
    return sum(square(y)) / N
}
plan single { mesh m = [dp: 1] }
FLOW
( ulimit -t 10; "$flowc" "$work/chain.flow" --emit=fuse >"$work/fuse" )
longest=$(awk 'length > n { n = length } END { print n }' "$work/fuse")
[ "$longest" -lt 2500 ] || { echo "a line of $longest characters"; exit 1; }
rm -rf "$work"
