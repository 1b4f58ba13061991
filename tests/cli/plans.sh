#!/bin/sh
# plans.sh FLOWC DIR GPT: --plans has a line for every plan, with the figures of its own dumps; what does not fit or is
# rejected says so in its line, and the others stand.
flowc=$1
rm -rf "$2"
mkdir -p "$2" || exit 1
cd "$2" || exit 1
fail() { echo "$1"; cat table; exit 1; }

"$flowc" "$3" --plans --target cpu >table || fail "refused"
plans=$(grep -c '^plan ' "$3")
[ "$(sed '1d;/^$/,$d' table | wc -l)" -eq "$plans" ] || fail "not a line for each of $plans plans"
bytes=$("$flowc" "$3" --plan tp2 --target cpu --emit=memory | sed -n '1s/.*: \([0-9]*\) bytes.*/\1/p')
gib=$(awk "BEGIN { printf \"%.3f\", $bytes / 1073741824 }")
grep -q "^tp2  *2  *$gib " table || fail "tp2 needs $gib GiB"
grep -q '^dp2_tp2_pp2 .*yes$' table || fail "dp2_tp2_pp2 fits its 16 GiB"

cat >three.flow <<'END'
dim N = 8, D = 6, C = 4
model M(x: f32[N, D], y: i32[N] ignore -1) {
    param w: f32[D, C] = normal(std = 0.1)
    return sum(cross_entropy(x @ w, y)) / count(y)
}
plan good  { mesh m = [dp: 2]; sbp x, y = {dp: S(N)} }
plan small { mesh m = [dp: 2]; sbp x, y = {dp: S(N)}; memory 64 B per rank }
plan wrong { mesh m = [tp: 4]; sbp w = {tp: S(D)} }
train { data { x = raw("x.bin", f32); y = raw("y.bin", i32) }; steps 1; optimizer sgd { lr = 0.1 } }
END
"$flowc" three.flow --plans --target cpu >table 2>errors || fail "one plan fits, but the status says none"
[ -s errors ] && { cat errors; exit 1; }
grep -q '^good .*no limit given$' table || fail "no line for good"
grep -q '^small .*no: over' table || fail "small does not fit"
grep -q '^wrong .*rejected: E0' table || fail "wrong is rejected"

# What goes to host memory is in the step: states of 4096 B, two of them, there and back once.
cat >far.flow <<'END'
dim N = 8, D = 32
model M(x: f32[N, D]) {
    param w: f32[D, D] = normal(std = 0.1)
    y = x @ w
    return sum(y * y) / N
}
plan none { mesh m = [dp: 2]; sbp x = {dp: S(N)}; cluster { link host 1 KB/s 5 us } }
plan fast { mesh m = [dp: 2]; sbp x = {dp: S(N)}; offload optimizer to host }
plan slow { mesh m = [dp: 2]; sbp x = {dp: S(N)}; offload optimizer to host; cluster { link host 1 KB/s 5 us } }
train { data { x = raw("x.bin", f32) }; steps 1; optimizer adamw { lr = 0.1 } }
END
"$flowc" far.flow --plans >table || fail "far.flow refused"
grep -q '^none .* ms .*yes$' table || fail "nothing of plan none goes to the host"
grep -q '^fast .* ms .*; 0.000 GiB to and from host memory$' table || fail "no line for fast"
grep -q '^slow .* 16\.[0-9]* s ' table || fail "16 KB at 1 KB/s take 16 s"
grep -q 'to host memory 1e-06 GB/s and 5 us' table || fail "the link to the host is not among the constants"
"$flowc" nothere.flow --plans >table 2>errors && fail "a missing file is fine"
grep -q 'cannot read' errors || fail "no word about the missing file"
