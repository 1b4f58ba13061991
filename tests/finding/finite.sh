#!/usr/bin/env bash
# finite.sh FLOWC WORK HERE [DOUBLE]: a 0 in row 5 of the second step's data, of which the model takes the logarithm. It is on
# rank 1, in its first micro-batch; --check-finite names all that, once, and the exit code is not 0.
set -eu
. "$(dirname "$0")/target.sh"
perl -e 'print pack("f<*", map { $_ == 13 * 8 + 3 ? 0 : 0.5 + ($_ % 7) / 4 } 0 .. 127)' >x.bin
build grid "$here/finite.flow" --plan grid
refused run grid --check-finite
said 'rank 1: step 2: the first infinity is in level, which fused(log, mul) makes at .*finite.flow:[0-9]*, forward, micro-batch 0 of 2: -inf at \[5, 3\]'
[ "$(grep -c '^flow: ' out)" = 1 ] || { cat out; fail "more than one report"; }
run grid --check-finite --steps 1                          # the first step is fine
