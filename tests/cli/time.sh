#!/bin/bash
# time.sh FLOWC GPT.flow: --time prints every pass; every plan of the example compiles in less than a second of
# work, and 20000 declared dims do not take seconds.
flowc=$1 file=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
bad=0
"$flowc" "$file" --time --target cpu -o "$work/out" 2>"$work/times" || bad=1
for pass in parse elaborate differentiate rewrite place shard box fuse layout schedule allocate prove emit; do
    grep -Eq "^$pass +[0-9.]+ ms$" "$work/times" || { echo "--time does not show $pass"; bad=1; }
done
plans=$(sed -n 's/^plan \([a-z0-9_]*\).*/\1/p' "$file")
[ -n "$plans" ] || { echo "no plans in $file"; bad=1; }
TIMEFORMAT='%U %S'
for plan in $plans; do
    # processor time, so that a busy machine does not count
    used=$({ time "$flowc" "$file" --plan "$plan" --target cpu -o "$work/$plan" >/dev/null 2>"$work/messages"; } 2>&1)
    [ -d "$work/$plan" ] || { cat "$work/messages"; echo "$plan does not compile"; bad=1; }
    echo "$plan: $used s"
    echo "$used" | awk '{ exit !($1 + $2 < 1) }' || { echo "$plan takes a second or more"; bad=1; }
done
awk 'BEGIN {
    for (i = 0; i < 20000; i++) printf "dim A%d = %s\n", i, i % 3 ? "A" (i - 1) : 2 + i % 50
    print "dim N = 4\nmodel M(x: f32[N, A3]) {\n param w: f32[A3] = ones\n return sum(square(x * w)) / N\n}"
    print "plan p { mesh m = [dp: 2]; sbp x = {dp: S(N)} }\ntrain { data { x = raw(\"x.bin\", f32) }; steps 1; optimizer sgd { lr = 0.1 } }"
}' >"$work/dims.flow"
used=$({ time "$flowc" "$work/dims.flow" --check >"$work/messages" 2>&1; } 2>&1)
[ ! -s "$work/messages" ] || { cat "$work/messages"; echo "20000 dims are not fine"; bad=1; }
echo "20000 dims: $used s"
echo "$used" | awk '{ exit !($1 + $2 < 1.5) }' || { echo "20000 dims take too long"; bad=1; }
exit $bad
