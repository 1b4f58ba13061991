# solve FLOWC PROBLEM: solves it into `out`, checks that nothing that lives at once overlaps and that the height is the
# top; sets height, bound (the most alive at once) and status.
solve() {
    status=0
    timeout 60 "$1" --allocate "$2" > out || status=$?
    set -- $(awk -F, '
        NR == 1 { if ($0 != "id,lower,upper,size,offset") { print "bad header"; exit 1 } next }
        /^# height/ { split($0, h, " "); height = h[3]; next }
        { n++; lo[n] = $2; up[n] = $3; size[n] = $4; at[n] = $5; top = $5 + $4 > top ? $5 + $4 : top }
        END { for (i = 1; i <= n; i++) {
                  live = 0
                  for (j = 1; j <= n; j++) {
                      if (lo[j] <= lo[i] && lo[i] < up[j])
                          live += size[j]
                      if (j < i && lo[i] < up[i] && lo[j] < up[j] && lo[i] < up[j] && lo[j] < up[i] &&
                          at[i] < at[j] + size[j] && at[j] < at[i] + size[i])
                          bad = 1
                  }
                  bound = live > bound ? live : bound
              }
              print (bad ? "overlap" : height != top ? "wrong" : "good"), sprintf("%.0f %.0f", height, bound) }' out)
    [ "$1" = good ] || { echo "placement is $1"; exit 1; }
    height=$2 bound=$3
}
