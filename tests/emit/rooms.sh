#!/usr/bin/env bash
# rooms.sh FLOWC FLOW WORK: no kernel asks for more than the plan has for it; one whose room is too small ends the run.
set -eu
. "$(dirname "$0")/../../scripts/mpi-env.sh"
flowc=$1 flow=$2 work=$3
rm -rf "$work"
mkdir -p "$work"
cd "$work"
head -c 98560 /dev/zero | tr '\0' '?' >x.bin                              # 0x3f3f3f3f: 0.747
export FL_STRICT_ROOM=1 OMP_NUM_THREADS=1
build() { make -s -C out ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}; }
for plan in f32 bf16; do
    "$flowc" "$flow" --plan "$plan" --target cpu -o out
    build
    ranks=$(sed -n 's/^RANKS := //p' out/Makefile)
    mpirun -n "$ranks" --oversubscribe out/run --data x.bin --steps 2 --quiet
    for kernel in fl_sum fl_square_sum; do
        grep -q "FL_IN_ROOM.* $kernel" out/class_0.c || { echo "$plan: no $kernel in a room"; exit 1; }
    done
    [ "$plan" = f32 ] && rm -r out
done
grep -q 'FL_IN_ROOM.* fl_rms_norm_grad_as' out/class_0.c || { echo "no norm is left to its kernel"; exit 1; }
sed -i 's/\(FL_IN_ROOM([^,]*, \)[0-9]*, fl_rms_norm_grad_as/\164, fl_rms_norm_grad_as/' out/class_0.c
build
mpirun -n 1 out/run --data x.bin --steps 1 --quiet >said 2>&1 && { echo "a room that is too small is not noticed"; exit 1; }
grep -q 'a kernel asks for [0-9]* bytes where the plan has 64' said || { cat said; exit 1; }
