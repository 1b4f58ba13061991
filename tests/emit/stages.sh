#!/bin/sh
# stages.sh FLOWC DIR: a pipeline of 70 stages. A reduction over all of them lists them all, and the tables compile.
flowc=$1
rm -rf "$2"
mkdir -p "$2" || exit 1
cd "$2" || exit 1
cat >many.flow <<'END'
dim N = 70, D = 4, L = 70
layer Block(x: f32[N, D]) {
    param w: f32[D, D] = normal(std = 0.1)
    return x + x @ w
}
model M(x: f32[N, D]) {
    repeat L as i { x = h[i]: Block(x) }
    return sum(x) / (N*D)
}
plan many { mesh m = [pp: 70]; microbatches 70 over N; pipeline over pp { split h } }
train { data { x = raw("x.bin", f32) }; steps 1; optimizer sgd { lr = 0.1 }; clip_norm 1 }
END
"$flowc" many.flow --target cpu -o out || exit 1
want=$(seq -s ', ' 0 69)
grep -q "$want" out/program.c || { echo "no list of 70 stages in program.c"; exit 1; }
${CC:-cc} -std=gnu11 -Wall -Wextra -Werror -fsyntax-only -Iout/runtime out/program.c
