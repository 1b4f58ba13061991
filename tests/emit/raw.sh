#!/usr/bin/env bash
# raw.sh FLOWC WORK: arithmetic on raw(..) reaches the numbers; a parameter that nothing reads
# is refused before the first step where it could not be saved after the last.
set -eu
. "$(dirname "$0")/../../scripts/mpi-env.sh"
flowc=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
cd "$work"
printf '\001\002\003\004\005\006\007\010\011\012\013\014' >x.bin
cat >raw.flow <<'FLOW'
dim N = 4, D = 3
model M(x: f32[N, D]) {
    param w: f32[D] = ones
    param unread: f32[D, D] = ones
    return sum(x * w) / (N*D)
}
plan single { mesh m = [dp: 1] }
train { data { x = (raw("x.bin", u8) - 1) / 2 }; steps 1; optimizer sgd { lr = 0.0 } }
FLOW
"$flowc" raw.flow -o out --target cpu 2>/dev/null
make -s -C out -j2 ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
mpirun -n 1 out/run --steps 1 --metrics m.jsonl --quiet
grep -q '"loss": *2.75[,}]' m.jsonl || { cat m.jsonl; exit 1; }
if mpirun -n 1 out/run --steps 1 --export e.safetensors --quiet >text 2>&1; then exit 1; fi
grep -q 'nothing reads parameter unread' text
! grep -q 'step 1' text
