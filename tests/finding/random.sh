#!/usr/bin/env bash
# random.sh FLOWC WORK HERE: rows I1, I2, I3, I5, I7. Initial weights and dropout are functions of the logical index: bit-equal on
# ranks that hold the same, the same tensors as on one rank where they are split, and the same bits again under recompute,
# also where what it starts from is kept in parts and gathered. Dropouts of one layer draw apart.
set -eu
. "$(dirname "$0")/target.sh"
perl -e 'print pack("f<*", map { 0.5 + ($_ * 7 % 13) / 4 } 0 .. 383)' >x.bin
for plan in single grid again parts; do
    build $plan "$here/random.flow" --plan $plan
    run $plan --steps 2 --dump 'h[*].seen, h[*].h, h[*].y, h[*].kept, h[*].up#grad' -o $plan.st --check-replicas --metrics $plan.jsonl 2>out || { cat out; exit 1; }
    said "flow: 15 tensors"
    "$FLOW_DIFF" single.st $plan.st --rtol 1e-5 >out || { cat out; fail "$plan"; }
    said '^15 tensors agree'
done
losses() { sed -n 's/.*"loss": *\([-+.e0-9]*\).*/\1/p' "$1.jsonl"; }
[ "$(losses grid)" = "$(losses again)" ] && [ "$(losses grid)" = "$(losses parts)" ] || fail "recompute draws otherwise"
perl -e 'local $/; open F, "<", "single.st"; $_ = <F>; my $n = unpack "Q<", $_; my $head = substr($_, 8, $n);
    sub tensor { $head =~ /"\Q$_[0]\E":\{[^}]*"data_offsets":\[(\d+)/ or die "no $_[0]"; unpack "f<128", substr($_, 8 + $n + $1, 512) }
    my @seen = tensor("h[0].seen"); my @y = tensor("h[0].y"); my @kept = tensor("h[0].kept");
    my $apart = grep { $y[$_] != 0 && $kept[$_] == 0 && $seen[$_] != 0 } 0 .. 127;
    exit($apart > 0 ? 0 : 1)' || fail "two dropouts of one layer drop the same elements"
