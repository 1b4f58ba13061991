#!/usr/bin/env bash
# skip.sh FLOWC WORK: a step with a gradient that is not finite changes neither weights nor states on any rank, though one alone
# has it; the steps around it do; it is said and counted. So too where the update goes ahead of the norm.
set -eu
. "$(dirname "$0")/../../scripts/mpi-env.sh"
flowc=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
cd "$work"
export OMP_NUM_THREADS=1
fail() { echo "FAILED: $*" >&2; exit 1; }
data() { perl -e 'print pack "f<*", map { $_ == 37 ? '"$1"' : sin($_ * $_) } 0 .. 71'; }     # step 2, the rows of rank 1
data '9**9**9' >inf.bin
data '9**9**9 - 9**9**9' >nan.bin
cat >base.flow <<'FLOW'
dim N = 4, D = 6
model M(x: f32[N, D]) {
    param w: f32[D, D] = normal(std = 0.3)
    return sum(square(x @ w)) / (N*D)
}
plan one { mesh m = [dp: 1] }
plan dp2 { mesh m = [dp: 2]; sbp x = {dp: S(N)}; shard optimizer over dp }
train {
    data { x = raw("x.bin", f32) }
    steps 3
    optimizer OPTIMIZER
    RULE
}
FLOW
train() { # ranks, plan, optimizer, rule
    rm -rf out ck*
    sed "s/OPTIMIZER/$3/; s/RULE/$4/" base.flow >m.flow
    case $4 in *inf*) cp nan.bin x.bin ;; *) cp inf.bin x.bin ;; esac
    "$flowc" m.flow --plan "$2" --target cpu -o out 2>/dev/null || { "$flowc" m.flow --check; fail "$2 $3"; }
    make -s -C out ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
    rm -f m.jsonl
    mpirun --oversubscribe -n "$1" out/run --quiet --steps 3 --save ck --save-every 1 --keep 3 --metrics m.jsonl 2>text
    for step in 1 2 3; do cat ck/step_00000$step/tensors* >tensors$step; done
}
for rule in 'clip_norm 1.0' 'clip_norm 1.0 deferred' 'skip nonfinite; ema 0.9' 'norm inf; clip_norm 1.0' 'norm inf; skip nonfinite'; do
    for optimizer in 'adamw { lr = 0.1; decay = 0.1 }' 'adam { lr = 0.1 }' 'sgd { lr = 0.1; momentum = 0.9 }' 'lion { lr = 0.1 }'; do
        case $optimizer:$rule in adamw* | *deferred | sgd*:skip* | sgd*:norm*) ;; *) continue ;; esac
        for at in one:1 dp2:2; do
            train "${at#*:}" "${at%:*}" "$optimizer" "$rule"
            cmp -s tensors1 tensors2 || fail "$at, $optimizer, $rule: step 2 changed something"
            cmp -s tensors2 tensors3 && fail "$at, $optimizer, $rule: step 3 changed nothing"
            grep -q 'step 2 is skipped: the gradient norm is' text && grep -q '1 of 3 steps were skipped, the first of them step 2' text ||
                fail "$at: not said: $(cat text)"
            [ "$(tail -1 m.jsonl | sed -n 's/.*"skipped_steps": \([0-9]*\).*/\1/p')" = 1 ] || fail "not counted: $(tail -1 m.jsonl)"
        done
    done
done
# a skipped step is one for the learning rate and none for the bias correction: as if its data had not been there
rm -rf out ck*
sed "s/OPTIMIZER/adamw { lr = LR }/; s/RULE/clip_norm 1.0/" base.flow >m.flow
cp inf.bin x.bin
(head -c 96 inf.bin && tail -c 96 inf.bin) >two.bin
for at in one:1 dp2:2; do
    rm -rf out m.jsonl
    sed 's/LR/0.1/' m.flow >constant.flow
    "$flowc" constant.flow --plan "${at%:*}" --target cpu -o out 2>/dev/null
    make -s -C out ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
    run() { mpirun --oversubscribe -n "${at#*:}" out/run --quiet "$@" 2>/dev/null; }
    run --save "ck_all_$at"
    run --data two.bin --steps 2 --save "ck_two_$at"
    run --steps 2 --save "ck_half_$at"
    run --resume "ck_half_$at" --save "ck_more_$at" --metrics m.jsonl
    cat "ck_all_$at"/step_*/tensors* >all
    cat "ck_two_$at"/step_*/tensors* >two
    cat "ck_more_$at"/step_000003/tensors* >more
    cmp all two || fail "$at: the bias correction counts a skipped step"
    cmp all more || fail "$at: a resumed run has forgotten that a step was skipped"
    grep -q '"skipped_steps": 1' m.jsonl || fail "$at: not counted after --resume: $(cat m.jsonl)"
done
rm -rf out
sed 's/LR/linear(peak = 0.1, warmup = 1)/' m.flow >linear.flow
"$flowc" linear.flow --target cpu -o out 2>/dev/null
make -s -C out ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
mpirun --oversubscribe -n 1 out/run --quiet --metrics m.jsonl 2>/dev/null
grep '"step": 3' m.jsonl | grep -q '"lr": 0.05,' || fail "the learning rate of step 3: $(cat m.jsonl)"
# without either word the weights are lost, and that is said
train 1 one 'sgd { lr = 0.1 }' ''
grep -q 'warning: step 2' text || fail "no warning: $(cat text)"
echo ok
