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

# What the files hold is checked before the first step: each must end with 1, say why, and not run.
refused() {
    if mpirun -n 1 --oversubscribe out/run --steps 9 >text 2>&1; then cat text; echo "not refused: $1"; exit 1; fi
    grep -q "$1" text || { cat text; echo "does not say: $1"; exit 1; }
    ! grep -q 'step 1' text
}
accepted() { mpirun -n 1 --oversubscribe out/run --steps 9 >text 2>&1 || { cat text; exit 1; }; }
le32() { for v; do printf "\\x$(printf %02x $((v & 255)))\\x$(printf %02x $((v >> 8 & 255)))\\x$(printf %02x $((v >> 16 & 255)))\\x$(printf %02x $((v >> 24 & 255)))"; done; }
cat >labels.flow <<'FLOW'
dim N = 2, D = 3, C = 3, R = 4
model M(ids: i32[N], x: f32[N, D], y: i32[N] ignore -1) {
    param table: f32[R, D] = normal(std = 0.3)
    param w: f32[D, C] = normal(std = 0.3)
    return sum(cross_entropy((embedding(ids, table) + x) @ w, y)) / count(y)
}
plan single { mesh m = [dp: 1] }
train {
    data { ids = raw("ids.bin", u8); x = raw("x.bin", u8) / 4; y = raw("y.bin", i32) }
    steps 9
    optimizer sgd { lr = 0.1 }
}
FLOW
rm -rf out
"$flowc" labels.flow -o out --target cpu
make -s -C out -j2 ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
printf '\000\001\002\003' >ids.bin
le32 0 2 -1 1 >y.bin
accepted
le32 0 2 -2 1 >y.bin
refused 'y.bin: element 2 is -2, but y at labels.flow:9 must be 0 to 2 or -1, which is ignored'
le32 0 2 3 1 >y.bin
refused 'element 2 is 3'
le32 0 2 1 1 >y.bin
printf '\000\001\004\003' >ids.bin
refused 'ids.bin: element 2 is 4, but ids at labels.flow:9 must be 0 to 3'
printf '\000\001\001\003' >ids.bin
le32 0 2 1 1 0 0 >y.bin
refused 'y.bin has 6 rows of y, but ids.bin has 4 of ids'
le32 0 2 >y.bin                          # one batch, the same in every step
accepted
le32 0 2 1 1 >y.bin
printf '\001\002\003\004\005\006\007\010\011\012\013' >x.bin
refused 'x.bin: 11 elements are not a whole number of rows of x, which have 3'

# A loss that is no number is said once and counted, with --quiet too.
printf '\001\002\003\004\005\006\007\010\011\012\013\014' >x.bin
sed -i 's/lr = 0.1/lr = 1e30/' labels.flow
rm -rf out
"$flowc" labels.flow -o out --target cpu
make -s -C out -j2 ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
mpirun -n 1 out/run --steps 9 --quiet >text 2>&1
[ "$(grep -c 'warning: step' text)" = 1 ] && grep -q 'not finite in [0-9] of 9 steps' text || { cat text; exit 1; }
