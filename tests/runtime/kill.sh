#!/bin/bash
# kill.sh BIGRAM1: a run that writes a checkpoint after every step is killed in the middle, again and again. There is always
# a complete checkpoint, and never an older one than before. Then: a resumed run reads on where the checkpoint says.
program=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
fail() { echo "FAILED: $*" >&2; exit 1; }
perl -e 'print pack("v*", map { $_ % 250 } 1 .. 9000)' >train.bin
perl -e 'print pack("v*", map { $_ % 250 } 1 .. 3000)' >held.bin

before=-1 killed=0
for round in $(seq 10); do
    resume=
    [ ! -e ck ] || resume='--resume ck'
    # shellcheck disable=SC2086
    "$program" --steps 100000 --save ck --save-every 1 --quiet $resume >/dev/null 2>err.txt &
    run=$!
    sleep "0.$((30 + RANDOM % 60))"
    kill -9 $run 2>/dev/null && killed=$((killed + 1))
    wait $run 2>/dev/null
    [ -e ck ] || continue
    "$program" --steps 0 --resume ck --quiet >/dev/null 2>err.txt || fail "round $round: $(cat err.txt; ls -R ck)"
    now=$(sed -n 's/.*"step": *\([0-9]*\).*/\1/p' "ck/$(cat ck/latest)/manifest.json")
    [ "$now" -ge "$before" ] || fail "round $round: step $now after step $before"
    before=$now
done
[ $killed -ge 5 ] && [ "$before" -gt 0 ] || fail "killed $killed times, at step $before: nothing was tried"

# without latest, the newest complete folder; without a complete one, none
rm -rf ck
"$program" --steps 3 --save ck --quiet >/dev/null || fail "save"
rm ck/latest
mkdir ck/step_000009 ck/step_000010.new
cp ck/step_000003/manifest.json ck/step_000010.new
"$program" --steps 4 --resume ck --metrics m.jsonl --quiet >/dev/null || fail "no fallback"
grep -q '"step": 4' m.jsonl || fail "not resumed at step 3"

# the position is read back: shifted by one token, other data are read
"$program" --steps 3 --save ck --quiet >/dev/null || fail "save again"
"$program" --steps 4 --resume ck --export a.st --quiet >/dev/null
perl -0pi -e 's/("positions": \[\s*)(\d+)/$1 . ($2 + 1)/e' "ck/$(cat ck/latest)/manifest.json"
"$program" --steps 4 --resume ck --quiet 2>err.txt >/dev/null && fail "a changed manifest is taken"
grep -q 'is damaged: its own checksum' err.txt || fail "$(cat err.txt)"
perl -0pi -e 's/,\s*"self": "[0-9a-f]*"//' "ck/$(cat ck/latest)/manifest.json"
"$program" --steps 4 --resume ck --export b.st --quiet >/dev/null || fail "moved position"
cmp -s a.st b.st && fail "the position is not read back"

# what is no directory is not replaced
echo precious >file
"$program" --steps 1 --save file --quiet >/dev/null 2>err.txt && fail "replaced a file"
[ "$(cat file)" = precious ] && grep -q 'is no directory of checkpoints' err.txt || fail "$(cat err.txt)"
echo ok
