#!/usr/bin/env bash
# read.sh FLOWC WORK: which tokens each step reads, from every kind of file, under every plan, and after a resume. The loss of
# the program is the sum of row 0 plus 1001 times that of row 1; row r of a file that starts at b holds b + 2r, b + 2r + 1.
set -eu
. "$(dirname "$0")/../../scripts/mpi-env.sh"
flowc=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
cd "$work"
export OMP_NUM_THREADS=1
fail() { echo "FAILED: $*" >&2; exit 1; }

cat >base.flow <<'FLOW'
dim N = 2, T = 2
model M(tokens: i32[N, T], targets: i32[N, T] ignore -100) {
    param w: f32[T] = ones
    p = cast(positions(N), f32) * 1000 + 1
    return sum(cast(tokens, f32) * w * p[:, _]) + 0 * sum(cast(targets, f32))
}
model_end
plan one { mesh m = [dp: 1] }
plan dp2 { mesh m = [dp: 2]; sbp tokens, targets = {dp: S(N)} }
plan tp2 { mesh m = [tp: 2]; sbp tokens, targets = {tp: S(T)}; microbatches 2 over N }
train {
    data { tokens, targets = DATA }
    steps 20
    optimizer sgd { lr = 0.0 }
}
FLOW
sed -i '/model_end/d' base.flow

# program NAME PLAN "data" [more options of flowc]
program() {
    local name=$1 plan=$2 data=$3; shift 3
    rm -rf "$name"
    sed "s|DATA|$data|" base.flow >"$name.flow"
    "$flowc" "$name.flow" --plan "$plan" -o "$name" --target cpu "$@" 2>/dev/null || { "$flowc" "$name.flow" "$@" --check; fail "$name"; }
    make -s -C "$name" ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
}
# rows of each step "r0 r1" as first tokens, from the metrics of a run
rows() { sed -n 's/.*"loss": *\([-0-9.e+]*\).*/\1/p' "$1" | perl -ne 'use POSIX; my $s1 = floor($_ / 1001); my $s0 = $_ - 1001 * $s1; print(($s0 - 1) / 2, " ", ($s1 - 1) / 2, "\n")'; }
run() { local ranks=$1 name=$2; shift 2; mpirun --oversubscribe -n "$ranks" "$name/run" --quiet --metrics m.jsonl "$@"; rows m.jsonl; }
is() { [ "$(tr '\n' ',' <got)" = "$1" ] || fail "$2: read $(tr '\n' ',' <got) instead of $1"; }
u16() { perl -e 'print pack "v*", @ARGV' "$@"; }

u16 $(seq 0 20) >a.bin                   # 10 rows, 0 2 .. 18
u16 $(seq 100 111) >b.bin                # 5 rows, 100 .. 108
u16 $(seq 200 206) >c.bin                # 3 rows, 200 .. 204

# one file, several, a part: an incomplete batch is left out, and the file starts again
program plain one 'next_token("a.bin", u16)'
run 1 plain --steps 6 >got
is '0 2,4 6,8 10,12 14,16 18,0 2,' "one file"
program several one 'next_token(["b.bin", "a.bin", "c.bin"], u16)'
run 1 several --steps 10 >got
is '100 102,104 106,108 0,2 4,6 8,10 12,14 16,18 200,202 204,100 102,' "three files"
program uneven one 'next_token(["b.bin", "b.bin", "b.bin"], u16)'
run 1 uneven --steps 8 >got
is '100 102,104 106,108 100,102 104,106 108,100 102,104 106,100 102,' "15 rows in batches of 2"
program first one 'next_token("a.bin", u16, first = 0.6)'
run 1 first --steps 3 >got
is '0 2,4 6,0 2,' "the first 12 of 21 tokens"
program last one 'next_token("a.bin", u16, last = 0.4)'
run 1 last --steps 3 >got
is '12 14,16 18,12 14,' "the last 9 of 21 tokens"
run 1 first --steps 6 --data a.bin >got
is '0 2,4 6,8 10,12 14,16 18,0 2,' "--data is read whole"
program weighted one 'next_token(["a.bin", "b.bin", "c.bin"], u16, weights = [2, 1, 1])'
run 1 weighted --steps 10 | tr ' ' '\n' >got
for f in '0 1 2 3 4 5 6 7 8 9' '50 51 52 53 54' '100 101 102'; do
    want=$(for i in 0 1 2 3; do printf '%s ' $f; done)
    got=$(awk -v lo="${f%% *}" -v hi="${f##* }" '$1 / 2 >= lo && $1 / 2 <= hi { printf "%d ", $1 / 2 }' got)
    case "$want" in "$got"*) ;; *) fail "weights: $got is not the start of $want" ;; esac
done
[ "$(awk '$1 < 100' got | wc -l) $(awk '$1 >= 100 && $1 < 200' got | wc -l) $(awk '$1 >= 200' got | wc -l)" = '10 5 5' ] || fail "shares: $(tr '\n' ' ' <got)"

# shuffled: all rows of all files once an epoch, in an order of its own, the same under every plan
shuffled='next_token(["a.bin", "b.bin", "c.bin"], u16, shuffle = true)'
for plan in one:1 dp2:2 tp2:2; do
    program "s_${plan%:*}" "${plan%:*}" "$shuffled"
    run "${plan#*:}" "s_${plan%:*}" --steps 20 >"got.${plan%:*}"
    cmp got.one "got.${plan%:*}" || fail "plan $plan reads other rows"
done
[ "$(head -9 got.one | tr ' ' '\n' | sort -n | tr '\n' ' ')" = '0 2 4 6 8 10 12 14 16 18 100 102 104 106 108 200 202 204 ' ] || fail "epoch 1: $(head -9 got.one)"
[ "$(sed -n 10,18p got.one | tr ' ' '\n' | sort -n | uniq | wc -l)" = 18 ] || fail "epoch 2 repeats rows"
[ "$(head -9 got.one)" != "$(sed -n 10,18p got.one)" ] || fail "two epochs in one order"
run 1 s_one --steps 20 --seed 2 >got
cmp -s got got.one && fail "the seed does not change the order"

# resumed at the exact position, under another plan, in the middle of the second epoch; and with another N
run 2 s_dp2 --steps 13 --save ck >/dev/null
rm m.jsonl
run 2 s_tp2 --steps 20 --resume ck >got
cmp got <(tail -7 got.one) || fail "resumed rows: $(cat got) instead of $(tail -7 got.one)"
mpirun -n 1 s_one/run --quiet --steps 13 --save ck1 >/dev/null
program ramp one "$shuffled" --set N=1
sed -n 14,18p got.one | tr ' ' '\n' >want
rm m.jsonl
mpirun -n 1 ramp/run --quiet --steps 23 --resume ck1 --metrics m.jsonl
sed -n 's/.*"loss": *\([-0-9.e+]*\).*/\1/p' m.jsonl | awk '{ print ($1 - 1) / 2 }' >got
cmp got want || fail "N = 1 goes on with $(tr '\n' ' ' <got) instead of $(tr '\n' ' ' <want)"

# the other kinds of files
perl -e 'print pack("V*", 20240520, 1, 21, (0) x 253), pack("v*", 0 .. 20)' >h.bin
run 1 plain --steps 6 --data h.bin >got
is '0 2,4 6,8 10,12 14,16 18,0 2,' "a file with a header"
program wide one 'next_token("w.bin", u32)'
perl -e 'print pack("V*", 20240801, 7, 21, (0) x 253), pack("V*", 0 .. 20)' >w.bin
run 1 wide --steps 2 >got
is '0 2,4 6,' "u32 with a header"
index() { perl -e 'my ($t, $size, @n) = @ARGV; my $at = 0; print "MMIDIDX\0\0", pack("Q<CQ<Q<", 1, $t, scalar @n, 1 + @n), pack("l<*", @n); for (@n) { print pack("q<", $at); $at += $_ * $size } print pack("q<*", 0 .. @n)' "$@"; }
program pair one 'next_token("p.bin", megatron)'
u16 $(seq 0 20) >p.bin
index 8 2 5 10 6 >p.idx
run 1 pair --steps 6 >got
is '0 2,4 6,8 10,12 14,16 18,0 2,' "a .bin with its .idx"
perl -e 'print pack "l<*", 0 .. 20' >q.bin
index 4 4 21 >q.idx
run 1 pair --steps 2 --data q >got
is '0 2,4 6,' "a pair of i32"

# what is wrong with a file is said before the first step
refused() {
    local words=$1 ranks=$2 name=$3; shift 3
    if mpirun --oversubscribe -n "$ranks" "$name/run" --steps 9 "$@" >text 2>&1; then cat text; fail "not refused: $words"; fi
    grep -q -- "$words" text || { cat text; fail "does not say: $words"; }
    ! grep -q 'step 1' text || fail "a step was done before: $words"
}
mv p.idx away; refused 'cannot open p.idx, data of pair.flow:11' 1 pair; mv away p.idx
index 8 2 5 10 7 >p.idx; refused 'its sequences end at byte 44, but p.bin has 42 bytes' 1 pair
index 6 2 5 10 6 >p.idx; refused 'elements of type 6 are no tokens' 1 pair
index 8 2 5 10 6 | head -c 50 >p.idx; refused '3 sequences and 4 documents need more than its 50 bytes' 1 pair
index 8 4 5 10 6 >p.idx; refused 'sequence 1 starts at byte 20 with 10 tokens, but the ones before it end at byte 10' 1 pair
printf 'TNTIDX..........................................' >p.idx; refused 'p.idx is no index of version 1' 1 pair
perl -e 'print pack("V*", 20240520, 1, 25, (0) x 253), pack("v*", 0 .. 20)' >h.bin
refused 'the header says 25 tokens, the file has room for 21' 1 plain --data h.bin
refused 'w.bin has the header of a file of u32, but is read as u16' 1 plain --data w.bin
program bytes one 'next_token("a.bin", u8)'
refused 'w.bin has the header of a file of u32, but is read as u8' 1 bytes --data w.bin
head -c 41 a.bin >odd.bin; refused '41 bytes are not a whole number of u16 elements' 1 plain --data odd.bin
mkdir folder; refused 'folder is no plain file' 1 plain --data folder
u16 0 1 2 >short.bin; refused 'has 3 tokens; one step of plain.flow:11 needs 5' 1 plain --data short.bin
mv c.bin away; refused 'cannot open c.bin' 2 s_dp2; mv away c.bin
u16 1 2 >c.bin; refused 'c.bin has 2 tokens to read; one row of weighted.flow:11 needs 3' 1 weighted

# masks: by a second file, by a token; the mask stands beside the target
sed -i 's/^    return .*/    return sum(where(targets == -100, 0.0, cast(targets, f32)) * w) + 1000 * count(targets)/' base.flow
program mask dp2 'next_token("a.bin", u16, mask = "a.mask", ignore = 4)'
perl -e 'print pack "C*", 1, 0, 1, 1, 1, 1, 1, (1) x 14' >a.mask
run 2 mask --steps 2 >/dev/null
[ "$(sed -n 's/.*"loss": *\([-0-9.e+]*\).*/\1/p' m.jsonl | tr '\n' ' ')" = '2005 4026 ' ] || fail "masked: $(cat m.jsonl)"
head -c 20 a.mask >b.mask; cp b.mask a.mask
refused 'a.mask masks 20 tokens, but a.bin has 21' 2 mask
refused 'which have a mask' 2 mask --data a.bin
echo ok
