#!/bin/sh
# comm.sh FLOWC GPT.flow: the communication of the GPT example is what a careful engineer would write by hand.
set -eu
flowc=$1 gpt=$2
fail() { echo "$*"; exit 1; }

# lines of --emit=comm: source entry phase kind axis bytes times tensor ..
count() {      # plan phase kind axis times
    "$flowc" "$gpt" --plan "$1" --set M=4 --set L=8 --emit=comm 2>/dev/null |
        awk -v phase="$2" -v kind="$3" -v axis="$4" -v times="$5" \
            '$2 == "train" && $3 == phase && $4 == kind && $5 == axis && $7 == times { n++ } END { print n + 0 }'
}
expect() {
    got=$(count "$1" "$2" "$3" "$4" "$5")
    [ "$got" = "$6" ] || fail "$1: $got lines of $3 over $4 in $2, $5 times a step; there should be $6"
}

# a tensor-parallel block: two all-reduces forward, two backward, for each block and micro-batch
expect tp2 forward all_reduce tp 32 2
expect tp2 backward all_reduce tp 32 2
expect dp2_tp2_pp2 forward all_reduce tp 16 2
expect dp2_tp2_pp2 backward all_reduce tp 16 2
# sequence parallelism: gathers and reduce-scatters instead, none in full
expect sp2 forward all_reduce tp 32 0
expect sp2 forward all_gather tp 32 2
expect sp2 forward reduce_scatter tp 32 2
# one gradient reduction per step, whatever the number of parameters
expect dp2 update all_reduce dp 1 1
expect dp2_tp2 update all_reduce dp 1 1
expect dp2_tp2_pp2 update all_reduce dp 1 1
expect dp2 backward all_reduce dp 32 0
# stages send what the residual stream carries, once a micro-batch each way
expect pp4 forward send pp 4 1
expect pp4 backward send pp 4 1

"$flowc" "$gpt" --plan dp2_tp2_pp2 --emit=comm,json 2>/dev/null | grep -q '"per_step"' || fail "no totals in the json"
