#!/bin/sh
# Runs the hand-written program on one rank and on two. Usage: program.sh BIGRAM "MPIRUN ARGS"; BIGRAM1 and BIGRAM2 are the
# programs for one and two ranks.
set -eu
bigram=$1
mpirun=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

fail() { echo "FAILED: $*" >&2; exit 1; }
run() { ranks=$1; shift; $mpirun -n "$ranks" "${bigram}$ranks" "$@"; }
# rejects CODE "words of the message" RANKS ARGS..
rejects() {
    code=$1 words=$2; shift 2
    set +e; run "$@" >out.txt 2>err.txt; got=$?; set -e
    [ $got = "$code" ] || fail "exit $got instead of $code for $* : $(cat err.txt)"
    grep -q "$words" err.txt || fail "no '$words' for $* : $(cat err.txt)"
}
field() { sed -n "s/.*\"$1\": \([-0-9.e+]*\).*/\1/p" "$2"; }

tokens() { perl -e 'local $/; binmode STDIN; binmode STDOUT; my $t = <STDIN>; print pack("v*", map { $_ % 250 } unpack("C*", $t));'; }
perl -e 'my $s = 7; for (1..6000) { $s = ($s * 1103515245 + 12345) & 0x7fffffff; print "the cat sat on the mat " x 1, chr(97 + ($s >> 16) % 5); }' >text
head -c 9000 text | tokens >train.bin
tail -c 3000 text | tokens >held.bin

# the same numbers on one rank and on two; evaluation, sample, a falling loss
run 1 --steps 12 --metrics one.jsonl --export one.st >one.txt
run 2 --steps 12 --metrics two.jsonl --export two.st >two.txt
field loss one.jsonl | grep -v '^$' >one.loss
field loss two.jsonl | grep -v '^$' >two.loss
[ "$(grep -c '"loss"' one.jsonl)" = 12 ] || fail "not 12 steps in the metrics"
paste one.loss two.loss | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-5) exit 1 }' || fail "losses differ between one rank and two"
awk 'NR == 1 { a = $1 } { b = $1 } END { exit !(b < a - 0.3) }' one.loss || fail "the loss does not fall"
grep -Eq '^step 12/12  loss [0-9]+\.[0-9]{6}  norm [0-9]+\.[0-9]{4}  lr [0-9.]+e-[0-9]+  [0-9]+ tok/s  comm [0-9]+%  eta 0s$' two.txt || fail "step line: $(grep "^step" two.txt | tail -1)"
[ "$(grep -c eval_loss two.jsonl)" = 3 ] || fail "evaluations at 5, 10 and the end: $(cat two.jsonl)"
grep -q '^the' two.txt || fail "no sample"
[ "$(tail -1 one.txt)" = "$(tail -1 two.txt)" ] || fail "samples differ"

# initial weights do not depend on the plan; files hold no padding; loading gives back what was written
run 1 --steps 0 --export a.st --quiet
run 2 --steps 0 --export b.st --quiet
cmp a.st b.st || fail "initial weights differ"
[ "$(wc -c <a.st)" -lt 251000 ] || fail "padding in the file"
run 2 --steps 0 --load one.st --export c.st --quiet
cmp one.st c.st || fail "a loaded file is written otherwise"

# interrupted and resumed, also with another number of ranks' checkpoint, equals uninterrupted
run 2 --steps 6 --save ck --quiet
[ "$(ls -1 ck | tr '\n' ' ')" = 'latest step_000006 ' ] && [ ! -e ck.new ] || fail "checkpoint"
run 2 --steps 12 --resume ck --export r.st --quiet
cmp two.st r.st || fail "resumed run differs"
run 1 --steps 12 --resume ck --metrics r.jsonl --quiet
[ "$(head -1 r.jsonl | sed 's/.*"step": \([0-9]*\).*/\1/')" = 7 ] || fail "resumed at the wrong step"
run 1 --steps 2 --resume nowhere --load one.st --quiet

# what is refused
set +e; $mpirun -n 1 "${bigram}2" 2>err.txt; got=$?; set -e
[ $got = 3 ] && grep -q 'compiled with plan dp for 2 ranks, but 1 was started' err.txt || fail "wrong number of ranks: $(cat err.txt)"
rejects 2 'unknown option --stepz' 2 --stepz 3
rejects 3 'no checkpoint in nowhere' 2 --resume nowhere
mkdir mine && echo precious >mine/file && mkfifo pipe
rejects 3 'mine: it exists and is no directory of checkpoints' 2 --steps 1 --save mine
rejects 3 'pipe exists and is no plain file' 2 --steps 1 --export pipe
rejects 3 'cannot make nowhere/ck.new' 2 --steps 1 --save nowhere/ck
[ "$(cat mine/file)" = precious ] && [ -p pipe ] && [ ! -e mine.new ] && [ ! -e pipe.part ] || fail "something was replaced"
rejects 3 'cannot open none.bin, data of bigram.flow:9' 2 --data none.bin
printf '\001\000\377\000' >bad.bin; cat train.bin >>bad.bin
rejects 3 'token 1 is 255, but the vocabulary of bigram.flow:9 has 250' 2 --data bad.bin
head -c 100 train.bin >short.bin
rejects 3 'has 50 tokens; one step' 1 --data short.bin
head -c 1000 one.st >cut.st
rejects 3 'cut.st' 2 --load cut.st
sed 's/"w"/"x"/' one.st >named.st
rejects 3 'missing: w' 2 --load named.st
grep -q 'not in the program: x' err.txt || fail "extra tensor not listed"
printf x | dd of=ck/step_000006/tensors-00001-of-00002.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null
rejects 4 'is damaged' 2 --resume ck
mv held.bin away.bin
rejects 3 'cannot open held.bin' 1 --steps 1
run 1 --steps 1 --data train.bin 2>note.txt >/dev/null
grep -q 'no evaluation' note.txt || fail "no note about the missing held-out data"
echo ok
