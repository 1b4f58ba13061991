#!/usr/bin/env bash
# states.sh FLOWC WORK [DOUBLE]: states that a step updates, at the top and in the blocks of a repeat, are the same under every plan, with
# and without micro-batches, and where a pipeline reads one on its first stage that its last stage makes; they are what the
# definition says; they are saved, resumed, exported and loaded, and evaluation reads them; a step that is skipped leaves them.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
flowc=$1 work=$2 double=${3:-}
. "$here/../program.sh"
perl -e 'print pack "f<*", map { 1.5 + sin($_ * $_) } 0 .. 287' >x.bin
perl -e 'print pack "f<*", map { $_ == 60 ? 9**9**9 : 1.5 + sin($_ * $_) } 0 .. 143' >inf.bin
cat >base.flow <<'FLOW'
dim N = 8, D = 6, L = 4
layer Block(x: f32[N, D]) {
    param w: f32[D, D] = normal(std = 0.3)
    state mean: f32[D] = zeros
    state var: f32[D] = ones
    state seen: f32 = zeros
    state teacher: f32[D, D] = zeros                       # of the weights that a step begins with
    update teacher = 0.9 * teacher + 0.1 * w
    m = mean(x, axis = N)
    update mean = 0.75 * mean + 0.25 * m
    update var = 0.75 * var + 0.25 * (mean(square(x), axis = N) - square(m))
    update seen = seen + 1
    return x + tanh(((x - READ_MEAN) / sqrt(READ_VAR + 1e-3)) @ w)
}
model M(x: f32[N, D]) {
    state centre: f32[D] = zeros
    state far: f32[D] = zeros                              # read on the first stage, made on the last
    state mixed: f32[D] = zeros
    param c: f32[D] = normal(std = 0.3)
    update centre = 0.5 * centre + 0.5 * mean(x, axis = N)
    update mixed = 0.5 * mixed + c * mean(x, axis = N)
    y = x - centre - far
    repeat L as i { y = h[i]: Block(y) }
    update far = 0.75 * far + 0.1 * mean(y, axis = N)
    return sum(square(y)) / (N*D) + 0.1 * sum(square(c))
}
plan one { mesh m = [dp: 1] }
plan dp2 { mesh m = [dp: 2]; sbp x = {dp: S(N)} }
plan tp2 { mesh m = [tp: 2]; sbp x = {tp: S(D)} }
plan mb4 { mesh m = [dp: 1]; microbatches 4 over N }
plan pp2_dp2 { mesh m = [pp: 2, dp: 2]; microbatches 2 over N; pipeline over pp { schedule = one_f_one_b; split h }
               sbp x = {dp: S(N)}; shard gradients over dp }
plan dp2_tp2_pp2 { mesh m = [pp: 2, dp: 2, tp: 2]; microbatches 2 over N; pipeline over pp { schedule = one_f_one_b; split h }
                   sbp x = {dp: S(N)}; sbp h[*].w = {tp: S(1)} }
plan turns { mesh m = [pp: 2]; microbatches 4 over N; pipeline over pp { schedule = interleaved(2); split h } }
train {
    data { x = raw("x.bin", f32) }
    steps 5
    optimizer adamw { lr = 0.02 }
    clip_norm 1.0
}
evaluate every 5 { data { x = raw("x.bin", f32) }; steps 2 }
FLOW
sed 's/READ_MEAN/mean/; s/READ_VAR/var/' base.flow >running.flow
sed 's/READ_MEAN/in_train(m, mean)/; s/READ_VAR/in_train(mean(square(x), axis = N) - square(m), var)/' base.flow >batch.flow
held_loss() { sed -n 's/.*"eval_loss": \([-+.e0-9]*\).*/\1/p' "$1" | tail -1; }
near() { perl "$here/near.pl" "$@" >gap 2>&1 || fail "$*: $(cat gap)"; }
same_loss() {
    awk -v a="$(held_loss "$1")" -v b="$(held_loss "$2")" 'BEGIN { exit !(a > 0 && b > 0 && (a - b) ^ 2 <= 25e-12) }' ||
        fail "evaluation: $(held_loss "$1") in $1 and $(held_loss "$2") in $2"
}
target=cpu
[ -z "$double" ] || target=cuda
for kind in running batch; do
    plans='dp2 tp2 mb4 dp2_tp2_pp2 turns pp2_dp2'
    [ $kind = running ] || plans='dp2 tp2'                # a step's own statistics are not known before its last micro-batch
    [ -z "$double" ] || plans=${plans##* }
    build one cpu $kind.flow one
    run one --export one.st --metrics one.jsonl
    for plan in $plans; do
        build $plan $target $kind.flow $plan
        run $plan --export $plan.st --metrics $plan.jsonl
        near 2e-5 one.st $plan.st
        same_loss one.jsonl $plan.jsonl
        rm -f $plan.jsonl
    done
    mv one one_$kind
    rm -f one.jsonl
done
[ -z "$double" ] || { finish && exit; }
# by the definition: the mean of rows 0 .. 7, then of 8 .. 15, half and half
run one_running --steps 2 --export two.st
perl -e 'my @x = map { 1.5 + sin($_ * $_) } 0 .. 95; my @c;
    for my $s (0, 1) { for my $d (0 .. 5) { my $m = 0; $m += $x[($s * 8 + $_) * 6 + $d] / 8 for 0 .. 7; $c[$d] = 0.5 * ($c[$d] || 0) + 0.5 * $m } }
    my $h = "{\"centre\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0,24]}}"; print pack("Q<", length $h), $h, pack "f<*", @c' >want.st
perl "$here/near.pl" only 1e-6 two.st want.st || fail "the running mean is another"
run one_running --steps 2 --save half
run one_running --resume half --export again.st
run one_running --export whole.st
cmp whole.st again.st || fail "a resumed run has other states"
run one_running --load whole.st --steps 0 --export loaded.st
cmp whole.st loaded.st || fail "states are not loaded"
# skipped
run one_running --data inf.bin --steps 1 --export before.st
run one_running --data inf.bin --steps 2 --export after.st
grep -q 'step 2 is skipped' text && cmp before.st after.st || fail "a skipped step updates: $(cat text)"
finish
