#!/usr/bin/env bash
# tokens.sh FLOW_TOKENS SOURCE WORK: the ids that the reference tokenizers give (recorded, and asked for again where python3 has
# the package `tokenizers`), the way back, and what is refused. The vocabularies are of our own making: train.py.
set -eu
tokens=$1 here=$(cd "$(dirname "$0")" && pwd) source=$2 work=$3
rm -rf "$work"
mkdir -p "$work"
cd "$work"
fail() { echo "FAILED: $*" >&2; exit 1; }
ids() { od -An -v "${2:--tu2}" -w"${3:-2}" "$1" | tr -s ' \n' ' ' | sed 's/^ //; s/ $//'; echo; }
text=$here/multilingual.txt

# bytes, there and back
"$tokens" "$text" -o bytes.bin
[ "$(wc -c <bytes.bin)" = $((2 * $(wc -c <"$text"))) ] || fail "bytes: $(wc -c <bytes.bin)"
"$tokens" --decode bytes.bin -o back.txt
cmp back.txt "$text" || fail "bytes do not come back"

for kind in level split matches; do
    "$tokens" "$text" --tokenizer "$here/$kind.json" -o "$kind.bin"
    ids "$kind.bin" >"$kind.ids"
    cmp "$kind.ids" "$here/$kind.ids" || fail "$kind: other ids than the reference"
    "$tokens" --decode "$kind.bin" --tokenizer "$here/$kind.json" -o back.txt
    [ $kind = matches ] || cmp back.txt "$text" || fail "$kind: the text does not come back"
done
# in GPT-2's two files only <|endoftext|> is a token of its own
sed 's/<|us/<|u s/g; s/quick brown/quick  brown/' "$text" >plain.txt
"$tokens" plain.txt --vocab "$here/vocab.json" --merges "$here/merges.txt" -o pair.bin
"$tokens" plain.txt --tokenizer "$here/level.json" -o level.bin
cmp pair.bin level.bin || fail "vocab.json and merges.txt give other ids"

# u32, headers, held-out text cut between characters, an end behind each text
"$tokens" "$text" --tokenizer "$here/level.json" --type u32 --header -o wide.bin
[ "$(head -c 12 wide.bin | od -An -tu4 | tr -s ' ' | sed 's/ $//')" = " 20240801 7 $(wc -w <level.ids)" ] || fail "header: $(head -c 12 wide.bin | od -An -tu4)"
tail -c +1025 wide.bin >tail.bin
[ "$(ids tail.bin -tu4 4)" = "$(cat level.ids)" ] || fail "u32"
"$tokens" --decode wide.bin --type u32 --tokenizer "$here/level.json" -o back.txt
cmp back.txt "$text" || fail "u32 does not come back"
"$tokens" --decode wide.bin --tokenizer "$here/level.json" -o back.txt
cmp back.txt "$text" || fail "the header does not say how wide tokens are"
for share in 0.3 0.31 0.32 0.33 0.34; do
    "$tokens" "$text" --tokenizer "$here/split.json" -o one.bin --held-out two.bin --share $share
    "$tokens" --decode one.bin two.bin --tokenizer "$here/split.json" -o back.txt
    cmp back.txt "$text" || fail "share $share"
done
printf 'ab' >one.txt
printf 'cd' >two.txt
"$tokens" one.txt two.txt --tokenizer "$here/level.json" --end '<|endoftext|>' -o end.bin
"$tokens" --decode end.bin --tokenizer "$here/level.json" -o back.txt
[ "$(cat back.txt)" = 'ab<|endoftext|>cd<|endoftext|>' ] || fail "ends: $(cat back.txt)"

# a long word takes no more than n log n
perl -e 'print "ab" x 500000' >long.txt
timeout 20 "$tokens" long.txt --tokenizer "$here/level.json" -o long.bin || fail "a long word"

# patterns that PCRE2 reads in another way than the reference cut as there (recorded: patterns.lengths), or are refused
while IFS= read -r pattern; do
    perl "$here/patterns.pl" "$here/patterns.text" "$pattern" "$work" "$tokens" || fail "$pattern"
done <"$here/patterns.txt" >lengths
cmp lengths "$here/patterns.lengths" || { diff lengths "$here/patterns.lengths" | head; fail "patterns cut in another way"; }

# what is not byte-level BPE is refused by its name
refused() {
    local words=$1; shift
    if "$tokens" "$@" -o no.bin 2>err.txt; then fail "not refused: $words"; fi
    grep -q -- "$words" err.txt || fail "no '$words' in: $(cat err.txt)"
    [ ! -e no.bin ] || fail "wrote a file: $words"
}
other() { perl -0pe "$1" "$here/split.json" >other.json; }
other 's/"type":"BPE"/"type":"WordPiece"/'; refused 'the model WordPiece' "$text" --tokenizer other.json
other 's/"normalizer":null/"normalizer":{"type":"NFC"}/'; refused 'the normalizer NFC' "$text" --tokenizer other.json
other 's/"type":"ByteLevel"/"type":"Metaspace"/'; refused 'the pre-tokenizer Metaspace' "$text" --tokenizer other.json
other 's/"type":"ByteLevel"/"type":"Split","pattern":{"String":"a"},"behavior":"Isolated"/'; refused 'is not byte-level' "$text" --tokenizer other.json
other 's/"behavior":"Isolated"/"behavior":"Contiguous"/'; refused 'a Split with behavior Contiguous' "$text" --tokenizer other.json
other 's/"byte_fallback":false/"byte_fallback":true/'; refused 'a BPE with byte_fallback' "$text" --tokenizer other.json
other 's/"lstrip":false/"lstrip":true/'; refused "the added token '<|endoftext|>' with lstrip" "$text" --tokenizer other.json
other 's/"Regex":"\(\?i/"Regex":"((?i/'; refused 'cannot be used' "$text" --tokenizer other.json
for odd in '[!-\\h]' '[+-\\p{L}]' '[a-[b]]' '[\\s-a]' '[[:alpha:]]' '\\X' '(?m:.)' '(a){1,2}+' 'a(?i)b' '[]a]' '\\Qa'; do
    ODD=$odd other 's/("Regex":")[^"]*(?:\\.[^"]*)*"/$1$ENV{ODD}"/'; refused 'flow-tokens does not know it' "$text" --tokenizer other.json
done
other 's/"merges":\[\[/"merges":[["zq","qz"],[/'; refused "merge 0 needs 'zq'" "$text" --tokenizer other.json
head -c 900 "$here/split.json" >other.json; refused 'other.json:1' "$text" --tokenizer other.json
printf 'caf\351' >latin.txt; refused 'latin.txt is no UTF-8 text: byte 3 is 0xe9' latin.txt --tokenizer "$here/split.json"
perl -e 'print pack "v*", 5, 9999' >bad.bin; refused 'token 1 is 9999' --decode bad.bin --tokenizer "$here/split.json"
refused "cannot read 'none.txt'" none.txt
other 's/"truncation":null/"truncation":{"max_length":4}/; s/"dropout":null/"dropout":0.0/'
"$tokens" "$text" --tokenizer other.json -o whole.bin || fail "a tokenizer.json that also says where to cut a model's input"
cmp whole.bin split.bin || fail "truncation"
if "$tokens" "$text" 2>err.txt; then fail "nothing was asked for, nothing was said"; fi
grep -q 'usage' err.txt || fail "no usage: $(cat err.txt)"
refused "no token '<end>'" "$text" --tokenizer "$here/split.json" --end '<end>'

python=${FLOW_PYTHON:-python3}
if "$python" -c 'import tokenizers' 2>/dev/null; then
    for real in "$text" "$source/README.md" "$source/../shared/data/tinyshakespeare.txt"; do
        [ -e "$real" ] || continue
        "$python" "$here/train.py" --check "$real" >want
        for kind in level split matches; do
            "$tokens" "$real" --tokenizer "$here/$kind.json" -o real.bin
            echo "$kind $(ids real.bin)"
        done >got
        cmp got want || fail "$real: other ids than the package gives"
    done
    "$python" "$here/train.py" --patterns | cmp - lengths || fail "patterns: other pieces than the package gives"
    echo "compared with the package"
fi
echo ok
