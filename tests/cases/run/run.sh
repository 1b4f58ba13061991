#!/usr/bin/env bash
# run.sh FLOWC FILE.flow WORK ROW: rows about files and last bits, on running programs.
#   B15  an unpadded table is loaded under a plan that pads it, and written again byte by byte
#   B16  saved with the padding of one split of the vocabulary, resumed with that of another
#   F6   a tied table saved on one stage, resumed on four, and back; with data parallel too
#   J4   a large table and biases of fewer elements than ranks, in shares of 4 ranks, of 3, of 2 on two stages, and whole
#   P10  loss, norm and weights have the same bits under 1, 2 and 4 stages
#   P13  .. and where the backward pass is split into those for inputs and for weights
set -eu
. "$(dirname "$0")/../../../scripts/mpi-env.sh"
flowc=$1 flow=$2 work=$3 row=$4
rm -rf "$work"
mkdir -p "$work"
cd "$work"
export OMP_NUM_THREADS=1
fail() { echo "$row: $*"; exit 1; }
for i in $(seq 0 299); do printf '%b' "\\x$(printf %02x $(((i * i * 7 + i) % 61)))\\x00"; done >tokens.bin
build() {
    for plan; do
        "$flowc" "$flow" --plan "$plan" -o "$plan" --target cpu
        make -s -C "$plan" -j2 ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
    done
}
run() { # plan ranks args..
    mpirun -n "$2" --oversubscribe "$1/run" --quiet "${@:3}" || fail "$*"
}
# The numbers called NAME in steps FROM.. of a metrics file.
numbers() { sed -n "s/.*\"step\": *\([0-9]*\),.*\"$2\": *\([-+.e0-9]*\).*/\1 \2/p" "$1" | awk -v from="$3" '$1 >= from'; }
near() { # a b: the same steps, and numbers within 2e-6
    [ -s "$1" ] || fail "no numbers in $1"
    paste "$1" "$2" | awk 'NF != 4 || $1 != $3 || ($2 - $4) ^ 2 > 4e-12 { print; bad = 1 } END { exit bad }' || fail "$1 $2 differ"
}
shape() { head -c 4096 "$1" | tr -d ' ' | grep -aq '"wte.weight":{[^}]*"shape":\[61,8\]' || fail "$1: the table has not 61 rows"; }
resumes() { # plan ranks other ranks: other goes on from plan's checkpoint as `one` would have
    run "$1" "$2" --steps 3 --save "ck_$1"
    run "$3" "$4" --steps 6 --resume "ck_$1" --metrics "$1_$3.jsonl"
    for name in loss grad_norm; do
        numbers all.jsonl $name 4 >a
        numbers "$1_$3.jsonl" $name 4 >b
        near a b
    done
}
case $row in
B15)
    build one tp4 tp3
    run one 1 --steps 0 --export whole.safetensors
    shape whole.safetensors
    for plan in tp4:4 tp3:3; do
        run ${plan%:*} ${plan#*:} --steps 0 --load whole.safetensors --export again.safetensors
        cmp whole.safetensors again.safetensors || fail "$plan writes another file"
    done ;;
B16)
    build one tp2 tp4 tp3
    run one 1 --steps 6 --metrics all.jsonl
    resumes tp2 2 tp4 4
    resumes tp4 4 tp3 3
    resumes tp3 3 one 1 ;;
F6)
    build one pp4 pp2_dp2
    run one 1 --steps 6 --metrics all.jsonl
    resumes one 1 pp4 4
    resumes pp4 4 pp2_dp2 4
    resumes pp2_dp2 4 one 1
    run pp4 4 --steps 3 --export tied.safetensors
    shape tied.safetensors
    [ "$(head -c 4096 tied.safetensors | grep -ao 'wte.weight' | wc -l)" = 1 ] || fail "the tied table is not in the file once" ;;
J4)
    build one zero1_dp4 zero3_dp3 zero2_pp2_dp2
    run one 1 --steps 6 --metrics all.jsonl
    resumes zero1_dp4 4 zero3_dp3 3
    resumes zero3_dp3 3 zero2_pp2_dp2 4
    resumes zero2_pp2_dp2 4 one 1
    resumes one 1 zero1_dp4 4 ;;
P10 | P13)
    plans="one:1 pp2:2 pp4:4 pp4_gpipe:4"
    [ $row = P10 ] || plans="one:1 pp4_zb_h1:4 pp4_zb_h2:4"
    build $(echo "$plans" | sed 's/:[0-9]*//g')
    for plan in $plans; do
        run ${plan%:*} ${plan#*:} --steps 6 --metrics m.jsonl --export ${plan%:*}.safetensors
        for name in loss grad_norm; do numbers m.jsonl $name 1; done >"${plan%:*}.txt"
        cmp one.txt "${plan%:*}.txt" && cmp one.safetensors "${plan%:*}.safetensors" || fail "$plan differs in a bit"
    done
    [ "$(wc -l <one.txt)" = 12 ] || fail "no numbers" ;;
*) fail "no such row" ;;
esac
rm -rf "$work"
