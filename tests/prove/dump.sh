#!/bin/sh
# dump.sh FLOWC GPT: --emit=prove shows the certificate of each stage and how the ranks were compared with one.
flowc=$1 gpt=$2 bad=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
"$flowc" "$gpt" --plan dp2_tp2_pp2 --emit=prove --verify >"$work/text" 2>"$work/messages" || { cat "$work/messages"; exit 1; }
for line in '^entry train: every stage runs to its end$' '^  stage 0: [1-9][0-9]* events$' '^  stage 1: [1-9][0-9]* events$' \
    '^    sends  *4 times .* to stage 1, slots [1-9]' '^    receives  *4 times .* from stage 1, slots [1-9]' \
    '^    meets  *[1-9][0-9]* times  over pp$' \
    '^    posts  *4 times  over dp in backward of micro-batch 3, waited for in update$' \
    '^    under way at once: [1-9][0-9]* of 108 blocks (collectives on [1-4] streams, [1-9][0-9]* links)$' '^all ranks compute what one does: .* micro-batch'; do
    grep -q "$line" "$work/text" || { echo "no line like '$line'"; bad=1; }
done
"$flowc" "$gpt" --plan tp2 --emit=prove --no-verify >"$work/unproved" || bad=1
grep -q '^all ranks were not compared with one: --no-verify$' "$work/unproved" || { echo "--no-verify is not shown"; bad=1; }
[ $bad = 0 ] || cat "$work/text" "$work/unproved"
exit $bad
