#!/usr/bin/env bash
# checkpoint.sh FLOWC SAME SLOW_DISK REPO WORK CASE: checkpoints of the GPT example at a small size.
#   I8      dropout over a split dim: what is resumed draws what the whole run drew, under the same plan and another
#   J1      saved under tensor and pipeline parallelism, resumed under data parallelism: weights, moments, step
#   J2      five steps, saved, resumed, five steps: every bit of weights and states as of ten steps
#   J3      tensors that are missing, too many, or of another shape are listed, and nothing is trained
#   J6      J2 with tensor parallelism
#   J7      tp 4 to tp 2, again and again: the same bytes every time
#   J10     J1 with tensor parallelism on both sides, of other widths
#   Q1      initial weights have the same bits under every layout, on 1, 2 and 4 ranks
#   U1      dp 4 to dp 2: the reader goes on at the same token
#   ramp    a run with another N goes on at the same token, shuffled or not
#   files   every rank writes its part; each file is in the manifest with its checksum; sizes are alike
#   told    what --resume takes instead of what one may think: an older checkpoint, another seed, no --load
#   keep    the last n and every m-th stay
#   beside  training goes on while the disk takes its time, and a little memory is enough; a second run is kept out meanwhile
#   old     a checkpoint of version 2 is read; of a later version it is refused
#   shards  weights in several files with an index, both ways
#   llama   Hugging Face's names and shapes of Llama, both ways
#   stacked several of its tensors as one parameter, under any plan: the same file, the same training
set -eu
flowc=$1 same=$2 slow_disk=$3 repo=$4 work=$5 row=$6
. "$repo/scripts/mpi-env.sh"
rm -rf "$work"
mkdir -p "$work"
cd "$work"
export OMP_NUM_THREADS=1 FL_TIMEOUT=60
fail() { echo "$row: $*"; exit 1; }
cat "$repo/examples/gpt/gpt.flow" "$repo/tests/checkpoint/plans.flow" >gpt.flow
size="--set N=24 --set T=8 --set V=61 --set D=16 --set H=4 --set L=4 --set M=2 --set warmup=2 --set steps=10 --set lr=1e-2"
perl -e 'my $s = 7; print pack("v*", map { $s = ($s * 1103515245 + 12345) & 0x7fffffff; ($s >> 16) % 61 } 1 .. 3000)' >tokens.bin
build() { # NAME PLAN FILE flags..
    "$flowc" "$3" --plan "$2" ${size} "${@:4}" -o "$1" --target cpu 2>log || { cat log; fail "$1 does not compile"; }
    make -s -C "$1" -j2 ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"} >log 2>&1 || { cat log; fail "$1: make"; }
}
plans() { for plan; do build "$plan" "$plan" gpt.flow; done; }
ranks() { sed -n 's/^RANKS := //p' "$1/Makefile"; }
run() { # NAME args..
    timeout 120 mpirun -n "$(ranks "$1")" --oversubscribe "$1/run" --data tokens.bin --quiet "${@:2}" || fail "$*"
}
refused() { # WORDS NAME args..
    ! timeout 120 mpirun -n "$(ranks "$2")" --oversubscribe "$2/run" --data tokens.bin --quiet "${@:3}" >out 2>err ||
        fail "not refused: ${*:2}"
    grep -q "$1" err || { cat err; fail "no '$1' is said of ${*:2}"; }
}
manifest() { echo "$1/$(cat "$1/latest")/manifest.json"; }
numbers() { sed -n 's/.*"step": *\([0-9]*\),.*"loss": *\([-+.e0-9]*\).*/\1 \2/p' "$1" | awk -v from="$2" '$1 >= from'; }
near() { # a b FROM: losses of two metrics files from this step on
    numbers "$1" "$3" >a
    numbers "$2" "$3" >b
    [ -s a ] || fail "no losses in $1"
    paste a b | awk 'NF != 4 || $1 != $3 || ($2 - $4) ^ 2 > 25e-12 { print; bad = 1 } END { exit bad }' || fail "$1 $2 differ"
}
halves() { # PLAN: whole and in halves, every bit
    plans "$1"
    run "$1" --steps 10 --save whole --export whole.st
    run "$1" --steps 5 --save half
    [ "$(cat half/latest)" = step_000005 ] || fail "it is called $(cat half/latest)"
    run "$1" --steps 10 --resume half --save half --export half.st
    "$same" whole/step_000010 half/step_000010 && cmp whole.st half.st || fail "it goes on otherwise under $1"
}
across() { # FROM TO..
    plans single "$@"
    run single --steps 10 --metrics all.jsonl
    run "$1" --steps 5 --save ck
    for plan in "${@:2}"; do
        run "$plan" --steps 5 --resume ck --save "again_$plan"
        "$same" ck/step_000005 "again_$plan/step_000005" || fail "$1 to $plan"
        rm -f rest.jsonl
        run "$plan" --steps 10 --resume ck --metrics rest.jsonl
        near all.jsonl rest.jsonl 6
    done
}
case $row in
I8)
    cat >drop.flow <<'FLOW'
dim N = 8, D = 12
model Net(x: f32[N, D]) {
    param w: f32[D, D] = normal(std = 0.4)
    h = dropout(tanh(x @ w), p = 0.3)
    return sum(square(h - 1)) / N
}
plan whole { mesh m = [ep: 1] }
plan split { mesh m = [ep: 2]; sbp w, h = {ep: S(1)} }
train { data { x = raw("tokens.bin", f32) }; steps 10; optimizer adamw { lr = 0.02 } }
FLOW
    size=
    perl -e 'print pack("f<*", map { sin($_ * $_) } 1 .. 480)' >tokens.bin
    for plan in whole split; do build $plan $plan drop.flow; done
    run whole --steps 10 --metrics all.jsonl
    run split --steps 10 --save ck10 --metrics split.jsonl
    near all.jsonl split.jsonl 1
    run split --steps 5 --save ck5
    run split --steps 10 --resume ck5 --save rest
    "$same" ck10/step_000010 rest/step_000010 || fail "other draws behind a resume"
    run whole --steps 10 --resume ck5 --metrics rest.jsonl
    near all.jsonl rest.jsonl 6
    run split --steps 10 --resume ck5 --seed 9 --save seed
    ! "$same" ck10/step_000010 seed/step_000010 >log || fail "nothing is drawn" ;;
Q1)
    size=
    perl -e 'print pack "f<*", (1) x 512' >tokens.bin
    cat >init.flow <<'FLOW'
dim N = 8, D = 64
model M(x: f32[N, D]) {
    param w: f32[D, D] = normal(std = 0.02)
    param u: f32[D, D] = uniform(-1, 1)
    return sum(square(x @ w @ u)) / N
}
plan one { mesh m = [a: 1, b: 1] }
plan whole { mesh m = [a: 2, b: 2]; sbp x = {a: S(N)} }
plan rows { mesh m = [a: 2, b: 1]; sbp w, u = {a: S(0)} }
plan columns { mesh m = [a: 2, b: 1]; sbp w, u = {a: S(1)} }
plan both { mesh m = [a: 2, b: 2]; sbp w, u = {a: S(0), b: S(1)} }
plan turned { mesh m = [a: 2, b: 2]; sbp w, u = {a: S(1), b: S(0)} }
plan twice { mesh m = [a: 2, b: 2]; sbp w, u = {(a, b): S(0)} }
plan shares { mesh m = [a: 2, b: 2]; sbp x = {a: S(N)}; shard parameters over a }
train { data { x = raw("tokens.bin", f32) }; steps 1; optimizer adamw { lr = 0.1 }; seed 1 }
FLOW
    for plan in one whole rows columns both turned twice shares; do
        build $plan $plan init.flow
        run $plan --steps 0 --export $plan.st
        cmp one.st $plan.st || fail "$plan begins with other weights"
    done
    run one --steps 0 --seed 2 --export other.st
    ! cmp -s one.st other.st || fail "the seed changes nothing" ;;
J1) across tp2_pp2_uneven dp4 zero1 single ;;
J2) halves zero1 ;;
J6) halves tp2 ;;
J10) across tp4 tp2 ;;
J3)
    plans dp2
    sed 's/optimizer adamw { lr = .*/optimizer sgd { lr = 0.1; momentum = 0.9;/; s/, \*_weight\] }/] }/' gpt.flow >sgd.flow
    build sgd dp2 sgd.flow
    build wide dp2 gpt.flow --set F=48
    run dp2 --steps 3 --save ck
    run sgd --steps 3 --save plain
    refused 'missing: h\[0\].attn.qkv_weight#v' dp2 --resume plain --steps 5
    refused 'not in the program: h\[1\].ln_2.bias#v' sgd --resume ck --steps 5
    refused 'h\[3\].mlp.up_weight#m is F32 \[16, 64\], the program has F32 \[16, 48\]' wide --resume ck --steps 5 ;;
J7)
    plans tp4 tp2
    for i in 1 2 3 4 5; do
        run tp4 --steps 2 --save "four_$i"
        run tp2 --steps 2 --resume "four_$i" --save "two_$i"
        for n in four two; do
            [ "$i" = 1 ] || cmp <(cat "${n}_1"/step_*/tensors-* "$(manifest ${n}_1)") <(cat ${n}_$i/step_*/tensors-* "$(manifest ${n}_$i)")
        done
        "$same" "four_$i/step_000002" "two_$i/step_000002" || fail "other tensors"
    done ;;
U1)
    across dp4 dp2
    grep -A1 '"positions"' "$(manifest ck)" | tail -n 1 | grep -q "^ *$((5 * 24 * 8))$" || fail "position: $(cat "$(manifest ck)")" ;;
ramp)
    sed 's/next_token("input.bin", u16)/next_token("input.bin", u16, shuffle = true)/' gpt.flow >shuffled.flow
    ! cmp -s gpt.flow shuffled.flow || fail "nothing is shuffled"
    for order in gpt shuffled; do                    # the rate is 0: a loss tells what was read
        build small single $order.flow --set N=12 --set lr=0 --set floor=0
        build large dp2 $order.flow --set lr=0 --set floor=0
        rm -rf ck all.jsonl rest.jsonl
        run small --steps 9 --metrics all.jsonl
        run small --steps 3 --save ck
        run large --steps 6 --resume ck --save ck --metrics rest.jsonl
        numbers all.jsonl 4 | awk '{ s += $2 / 2 } NR % 2 == 0 { print 3 + NR / 2, s; s = 0 }' >a
        numbers rest.jsonl 4 >b
        paste a b | awk 'NF != 4 || $1 != $3 || ($2 - $4) ^ 2 > 25e-12 { print; bad = 1 } END { exit bad || NR != 3 }' || fail "$order: other rows"
        grep -A1 '"positions"' "$(manifest ck)" | tail -n 1 | grep -q "^ *$((3 * 12 * 8 + 3 * 24 * 8))$" || [ $order = shuffled ] ||
            fail "position: $(cat "$(manifest ck)")"
    done ;;
files)
    plans dp4 tp2_pp2_uneven
    for plan in dp4 tp2_pp2_uneven; do
        run $plan --steps 1 --save $plan.ck
        [ "$(ls $plan.ck/step_000001 | tr '\n' ' ')" = "manifest.json $(for i in 1 2 3 4; do echo -n "tensors-0000$i-of-00004.safetensors "; done)" ] ||
            fail "$(ls $plan.ck/step_000001)"
        for f in $plan.ck/step_000001/tensors-*; do
            grep -A1 "\"${f##*/}\"" "$(manifest $plan.ck)" | grep -q "\"bytes\": $(stat -c %s "$f")" || fail "$f is not in the manifest"
        done
    done
    stat -c %s dp4.ck/step_000001/tensors-* | sort -n | awk 'NR == 1 { a = $1 } { b = $1 } END { exit !(b < 1.6 * a) }' ||
        fail "one rank writes far more than another"
    "$same" dp4.ck/step_000001 dp4.ck/step_000001 | grep -q "^$((3 * (4 * 12 + 4))) tensors" || fail "not all tensors once" ;;
told)
    plans dp2
    run dp2 --steps 4 --save ck --save-every 2 --export w.st
    told() { run dp2 --resume ck --steps 5 "$@" >out 2>err; }
    told --seed 1
    [ ! -s err ] || fail "a seed that is the same: $(cat err)"
    refused 'ck holds checkpoints, .*: --resume ck goes on from there' dp2 --load ck
    head -c 4000 tokens.bin >short.bin
    timeout 120 mpirun -n 2 --oversubscribe dp2/run --data short.bin --quiet --resume ck --steps 5 2>err || fail "other data"
    grep -q '^flow: the data of gpt.flow:[0-9]* held 3000 elements when the checkpoint was written and hold 2000 now' err || fail "data: $(cat err)"
    told --seed 2 --load w.st
    grep -q "^flow: --seed 2 in place of the checkpoint's 1: from here on other numbers are drawn" err || fail "seed: $(cat err)"
    grep -q '^flow: going on behind step 4 of ck: --load w.st is not read' err || fail "load: $(cat err)"
    mv ck/step_000004/manifest.json .
    told
    grep -q '^flow: ck/latest names step_000004, which has no manifest.json and so is not complete; going on from ck/step_000002$' err ||
        fail "latest: $(cat err)"
    rm -rf ck/step_000004
    told
    grep -q '^flow: ck/latest names step_000004, which is not there; going on from ck/step_000002$' err || fail "latest: $(cat err)"
    rm ck/step_000002/manifest.json
    refused 'no checkpoint in ck' dp2 --resume ck
    grep -q '^flow: ck/latest names step_000004, which is not there; there is no other$' err || fail "nothing: $(cat err)" ;;
keep)
    plans dp2
    kept() { ls -1 "$1" | tr '\n' ' '; }
    run dp2 --steps 9 --save ck --save-every 1 --keep-every 4
    [ "$(kept ck)" = 'latest step_000004 step_000008 step_000009 ' ] || fail "$(kept ck)"
    run dp2 --steps 10 --resume ck --save ck --save-every 1 --keep 3
    [ "$(kept ck)" = 'latest step_000008 step_000009 step_000010 ' ] || fail "$(kept ck)"
    run dp2 --steps 9 --resume ck/step_000008 --save ck --keep 1        # going back: what lies ahead stays
    [ "$(kept ck)" = 'latest step_000009_2 step_000010 ' ] && [ "$(cat ck/latest)" = step_000009_2 ] || fail "$(kept ck)"
    run dp2 --steps 10 --resume ck --save other
    "$same" ck/step_000010 other/step_000010 || fail "it went on from elsewhere" ;;
beside)
    plans dp2
    LD_PRELOAD=$slow_disk SLOW_DISK=3000 timeout 120 mpirun -n 2 --oversubscribe dp2/run --data tokens.bin --steps 200 --save ck \
        --save-every 100 >lines 2>err &
    for i in $(seq 400); do
        ! grep -q '^step 105/' lines 2>/dev/null || break
        sleep 0.05
    done
    [ ! -e ck ] && [ -e ck.new/step_000100.new ] || fail "training does not go on beside the writing"
    first=$!
    timeout 120 mpirun -n 2 --oversubscribe dp2/run --data tokens.bin --quiet --steps 1 --save ck/ 2>second && fail "two runs save to one directory"
    grep -q 'flow: --save ck/*: another run saves there (process [0-9]* on [^ ]*); name another directory' second || fail "$(cat second)"
    wait $first || fail "$(cat err)"
    [ "$(cat ck/latest)" = step_000200 ] && [ ! -e ck.new ] && [ ! -e ck.lock ] || fail "$(ls . ck)"
    run dp2 --steps 20 --save quick --save-every 10
    run dp2 --steps 20 --save small --save-every 10 --save-memory 1K
    "$same" quick/step_000020 small/step_000020 && "$same" quick/step_000010 small/step_000010 || fail "a small memory writes otherwise"
    "$flowc" gpt.flow --plan dp2 $size --emit=memory | grep -q '^    saving  *[1-9][0-9]*  (with --save' || fail "--emit=memory is silent" ;;
old)
    plans single dp2
    run single --steps 5 --save ck
    mkdir -p was/step_000005
    mv ck/step_000005/tensors-00001-of-00001.safetensors was/step_000005/tensors.safetensors
    sum=$(sed -n 's/.*"checksum": "\([0-9a-f]*\)".*/\1/p' "$(manifest ck)")
    echo "{\"version\": 2, \"step\": 5, \"positions\": [960], \"seed\": \"1\", \"checksum\": \"$sum\"}" >was/step_000005/state.json
    echo step_000005 >was/latest
    run dp2 --steps 10 --resume was --metrics old.jsonl
    run dp2 --steps 10 --metrics new.jsonl
    near new.jsonl old.jsonl 6
    sed -i 's/"version": 2/"version": 4/' was/step_000005/state.json
    refused 'has version 4; this program reads versions 2 and 3' dp2 --resume was
    printf '\001' | dd of=was/step_000005/tensors.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null
    sed -i 's/"version": 4/"version": 2/' was/step_000005/state.json
    refused 'tensors.safetensors is damaged' dp2 --resume was ;;
shards)
    plans tp2 single
    run tp2 --steps 2 --export whole.safetensors
    refused 'cannot write hf/model.safetensors' tp2 --steps 2 --export hf/model.safetensors --export-limit 10K
    mkdir hf
    run tp2 --steps 2 --export hf/model.safetensors --export-limit 10K
    n=$(ls hf/model-*.safetensors | wc -l)
    [ "$n" -gt 3 ] && [ -e "hf/model-00001-of-0000$n.safetensors" ] && [ ! -e hf/model.safetensors ] || fail "$(ls hf)"
    for f in hf/model-*; do [ "$(stat -c %s "$f")" -lt 14000 ] || fail "$f is too large"; done
    grep -q '"total_size": [1-9]' hf/model.safetensors.index.json && grep -q '"h.0.attn.c_attn.weight": "model-0000' hf/model.safetensors.index.json ||
        fail "$(cat hf/model.safetensors.index.json)"
    "$same" whole.safetensors hf || fail "the shards hold other tensors"
    for from in hf hf/model.safetensors.index.json; do
        run single --steps 0 --load $from --export back.safetensors
        cmp whole.safetensors back.safetensors || fail "$from is read otherwise"
    done
    for f in whole.safetensors hf/model-*; do              # as PyTorch's readers want it
        head -c 50 "$f" | grep -aq '{"__metadata__":{"format":"pt"}' || fail "$f does not say its format"
    done
    cp whole.safetensors hf/model.safetensors              # of another day, say
    refused 'hf holds model.safetensors and model.safetensors.index.json' single --load hf
    rm hf/model.safetensors
    rm hf/model-00002-of-*
    refused 'cannot open hf/model-00002-of' single --load hf
    refused 'is a folder without model.safetensors.index.json' single --load . ;;
llama)
    size="--set N=4 --set T=8 --set V=61 --set D=16 --set F=24 --set H=4 --set G=2 --set L=3 --set steps=4 --set warmup=2"
    cat "$repo/examples/llama/llama3-405b.flow" - >llama.flow <<'FLOW'
plan one { mesh m = [dp: 1] }
plan tp2 { mesh m = [tp: 2]; sbp h[*].attn.q_weight, h[*].attn.out_weight = {tp: S(H)}; sbp h[*].attn.k_weight, h[*].attn.v_weight = {tp: S(G)} }
FLOW
    perl -e 'print pack("V*", map { $_ * 7 % 61 } 1 .. 400)' >tokens.bin
    for plan in one tp2; do build $plan $plan llama.flow; done
    run tp2 --steps 2 --export model.safetensors
    header=$(head -c 8192 model.safetensors | tr -d ' \000' | head -c 3000)
    for want in 'model.embed_tokens.weight:61,16' 'model.layers.2.self_attn.q_proj.weight:16,16' 'lm_head.weight:61,16' \
        'model.layers.0.self_attn.k_proj.weight:8,16' 'model.layers.1.self_attn.v_proj.weight:8,16' 'model.norm.weight:16' \
        'model.layers.2.self_attn.o_proj.weight:16,16' 'model.layers.0.mlp.gate_proj.weight:24,16' \
        'model.layers.0.mlp.up_proj.weight:24,16' 'model.layers.0.mlp.down_proj.weight:16,24' \
        'model.layers.2.input_layernorm.weight:16' 'model.layers.2.post_attention_layernorm.weight:16'; do
        grep -aq "\"${want%:*}\":{\"dtype\":\"F32\",\"shape\":\[${want#*:}\]" <<<"$header" || fail "no ${want}: $header"
    done
    [ "$(grep -ao '"dtype"' <<<"$header" | wc -l)" = $((3 * 9 + 3)) ] || fail "other tensors too"
    run one --steps 0 --load model.safetensors --export again.safetensors --export-limit 2K
    "$same" model.safetensors again.safetensors.index.json || fail "it is read otherwise" ;;
stacked)
    size="--set N=4 --set T=8 --set V=61 --set D=16 --set F=24 --set H=4 --set G=2 --set L=3 --set M=2 --set steps=4 --set warmup=2"
    cat "$repo/examples/llama/llama3-405b.flow" - >llama.flow <<'FLOW'
plan one { mesh m = [dp: 1] }
FLOW
    # gate and up are one parameter, so are keys and values
    perl -0pe 's/    param gate_weight.*\n    param up_weight.*\n/    param in_weight: f32[D, 2, F] = normal(std = 0.02)\n/ or die;
        s/return \(silu\(x @ gate_weight\).*down_weight\n/gate, up = unstack(einsum("ntd,dsf->sntf", x, in_weight), axis = 0)\n    return (silu(gate) * up) @ down_weight\n/ or die;
        s/    param k_weight.*\n    param v_weight.*\n/    param kv_weight: f32[2, D, G, K] = normal(std = 0.02)\n/ or die;
        s/    k = (.*), k_weight\)(.*)\n    v = .*\n/    kw, vw = unstack(kv_weight, axis = 0)\n    k = $1, kw)$2\n    v = einsum("ntd,dgk->ngtk", x, vw)\n/ or die;
        s/    h\[i\].attn.k_weight *=.*\n.*v_proj.*\n/    h[i].attn.kv_weight = stack("model.layers.{i}.self_attn.k_proj.weight", "model.layers.{i}.self_attn.v_proj.weight") as [2, G*K, D] -> [2, D, G*K]\n/ or die;
        s/    h\[i\].mlp.gate_weight *=.*\n.*up_proj.*\n/    h[i].mlp.in_weight = stack("model.layers.{i}.mlp.gate_proj.weight", "model.layers.{i}.mlp.up_proj.weight") as [2, F, D] -> [D, 2, F]\n/ or die;
        s/plan pp16.*?\n}\n//s or die' llama.flow >stacked.flow
    cat >>stacked.flow <<'FLOW'
plan tp2 { mesh m = [tp: 2]; sbp h[*].mlp.in_weight = {tp: S(F)}; sbp h[*].attn.kv_weight = {tp: S(G)} }
plan pp3_dp2 { mesh m = [pp: 3, dp: 2]; microbatches M over N; pipeline over pp { schedule = one_f_one_b; split h }; sbp tokens, targets = {dp: S(N)}
               shard parameters over dp }
FLOW
    perl -e 'print pack("V*", map { $_ * 7 % 61 } 1 .. 400)' >tokens.bin
    build plain one llama.flow
    run plain --steps 0 --seed 5 --export model.st
    run plain --steps 4 --load model.st --metrics plain.jsonl --export end.st
    for plan in one tp2 pp3_dp2; do
        build $plan $plan stacked.flow
        run $plan --steps 0 --load model.st --export back.st
        "$same" model.st back.st || fail "$plan reads it otherwise"
        run $plan --steps 4 --load model.st --metrics $plan.jsonl --export $plan.st --save ck
        near plain.jsonl $plan.jsonl 1
    done
    run tp2 --steps 4 --resume ck --export again.st
    cmp pp3_dp2.st again.st || fail "a checkpoint of it goes elsewhere"
    run one --steps 0 --load end.st --export parts.safetensors --export-limit 2K
    "$same" end.st parts.safetensors.index.json || fail "cut between the parts"
    sed 's/layers.{i}.mlp.up_proj/layers.{i}.mlp.upper_proj/' stacked.flow >other.flow
    build other one other.flow
    refused 'missing: model.layers.0.mlp.upper_proj.weight' other --load model.st
    grep -q 'not in the program: model.layers.2.mlp.up_proj.weight' err || fail "$(cat err)"
    build wide one stacked.flow --set F=32
    refused 'model.layers.1.mlp.up_proj.weight is F32 \[24, 16\], the program has F32 \[32, 16\]' wide --load model.st ;;
esac
cd /
rm -rf "$work"
