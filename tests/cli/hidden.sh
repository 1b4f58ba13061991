#!/bin/sh
# hidden.sh FLOWC GPT.flow: gradients that are reduced beside the backward cost a step what sticks out of it. With links of
# half the speed a step is longer by far less than what then takes longer; with links so slow that nothing hides, by it.
flowc=$1 file=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
step() {                                 # bandwidth in bytes per second: ms of a step, GiB moved
    echo '{"name": "x", "hosts": 1, "devices": 8, "memory": 80e9, "inside": '"$1"', "inside_latency": 3e-6, "between": 25e9,
        "between_latency": 1e-5, "host": 25e9, "host_latency": 5e-6, "flops": 1e13, "flops16": 1e13, "stream": 2e12,
        "call": 4e-6, "exponential": 0}' >"$work/cluster.json"
    "$flowc" "$file" --plans --cluster "$work/cluster.json" --set D=1024 --set L=16 --set M=1 >"$work/table" || exit 1
    awk '$1 == "dp2" { print $6 * ($7 == "s" ? 1000 : 1), $4 }' "$work/table"
}
{ step 100e9; step 50e9; step 1e9; step 0.5e9; } | tr '\n' ' ' >"$work/numbers"
awk '{
    wire = $2 * 1.073741824 / 100 * 1000          # ms at the first bandwidth
    hidden = $3 - $1; bare = $7 - $5
    printf "%.2f ms more where it hides, of %.2f; %.1f ms where it does not, of %.1f\n", hidden, wire, bare, 100 * wire
    exit !(hidden >= 0 && hidden < wire / 3 && bare > 70 * wire && bare < 130 * wire)
}' "$work/numbers"
