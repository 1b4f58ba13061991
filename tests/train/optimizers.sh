#!/usr/bin/env bash
# optimizers.sh AGREE FLOWC REFERENCE FILE.flow WORK: every optimizer, with groups of parameters and a schedule of the learning
# rate, against float64, on one rank and on four with shares of the states.
set -eu
agree=$1 flowc=$2 reference=$3 flow=$4 work=$5
rm -rf "$work"
mkdir -p "$work"
groups='decay = 0.3 on [h[*].w]; decay = 0.1 on [wte.weight]; lr_scale = 0.5 on [h[*].b]; lr_scale = 2 on [wte.weight]'
while IFS='|' read -r name settings; do
    sed "s/optimizer adamw.*/optimizer $name { $settings; $groups }/; s/clip_norm .*/clip_norm 0.9/" "$flow" >"$work/$name.flow"
    "$agree" "$flowc" "$reference" "$work/$name" "$work/$name.flow" one zero2_pp2_dp2 </dev/null
done <<'END'
adamw|lr = inverse_sqrt(peak = 2e-2, warmup = 3); beta2 = 0.95
adam|lr = warmup_stable_decay(peak = 2e-2, warmup = 2, floor = 1e-3, decay = 3)
sgd|lr = linear(peak = 0.3, warmup = 2); momentum = 0.9
lion|lr = cosine(peak = 3e-3, warmup = 2, floor = 1e-4); beta1 = 0.9; beta2 = 0.99
END
echo ok
