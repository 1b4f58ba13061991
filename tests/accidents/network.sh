#!/usr/bin/env bash
# network.sh FLOWC REPO WORK CASE RELAY: two hosts, each a network of its own on this machine, joined by one link.
#   slow_link  packets take 4 ms and one in fifty is lost (RELAY carries them, as many kernels lack netem): nothing is taken for
#              dead, and the numbers are the same
#   narrow     the link is narrow and drops what does not fit: the same
#   measured   --check-cluster tells the narrow link from what is within a host, and flowc reads its numbers
#   cut_off    the link goes down: rank 0 says that rank 1 does not answer, and what it waits for; the checkpoint resumes
# Where networks cannot be made (no root, no ip) the test is skipped.
set -u
flowc=$1 repo=$2 work=$3 row=$4 relay=$5
. "$repo/tests/accidents/setup.sh"
skip() { echo "$row: $*, skipped"; exit 77; }
[ "$(id -u)" = 0 ] || skip "not root"
command -v ip >log && command -v unshare >log || skip "no ip or unshare"
a=fl_a_$$ b=fl_b_$$
carrier=
clean() {
    [ -z "$carrier" ] || kill -TERM $carrier 2>/dev/null
    for net in $a $b; do
        # shellcheck disable=SC2046
        kill -KILL $(ip netns pids $net 2>/dev/null) 2>/dev/null
        ip netns del $net 2>/dev/null
    done
}
trap clean EXIT
ip netns add $a 2>log && ip netns add $b 2>log || skip "no network of its own can be made here"
if [ $row = slow_link ]; then
    [ -c /dev/net/tun ] || skip "no tap devices"
    "$relay" $a va$$ $b vb$$ 4 2 >carried 2>log &
    carrier=$!
    until grep -q ready carried; do kill -0 $carrier 2>>log || skip "no tap devices: $(cat log)"; sleep 0.05; done
else
    ip link add va$$ netns $a type veth peer name vb$$ netns $b 2>log || skip "no link between networks can be made here"
fi
ip -n $a addr add 10.213.77.1/24 dev va$$ && ip -n $b addr add 10.213.77.2/24 dev vb$$ || fail "addresses"
for net in $a $b; do ip -n $net link set lo up; done
ip -n $a link set va$$ up && ip -n $b link set vb$$ up || fail "the link"
cat >agent <<SH
#!/bin/sh
shift
exec ip netns exec $b unshare -u sh -c "hostname host-b; exec sh -c '\$*'"
SH
chmod +x agent
export OMPI_MCA_plm_rsh_agent=$PWD/agent OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=10.213.77.0/24
export OMPI_MCA_oob_tcp_if_include=10.213.77.0/24 OMPI_MCA_orte_keep_fqdn_hostnames=1 FL_TIMEOUT=4
over() { timeout 100 ip netns exec $a unshare -u sh -c 'hostname host-a; exec "$@"' sh mpirun -n 2 --host 10.213.77.1:1,10.213.77.2:1 \
    -x FL_TIMEOUT -x OMP_NUM_THREADS "$PWD/dp2/run" --data "$PWD/tokens.bin" --quiet "$@"; }
plans dp2
over --steps 2 >out 2>&1 || { cat out; skip "mpirun does not reach the other network"; }
case $row in
slow_link | narrow)
    [ $row = slow_link ] || tc -n $b qdisc add dev vb$$ root tbf rate 8mbit burst 10k limit 12k 2>log || skip "no tbf"
    over --steps 30 --save "$PWD/ck" --save-every 10 --export "$PWD/a.st" >out 2>&1 || { cat out; fail "exit code $?"; }
    if [ $row = narrow ]; then
        tc -n $b -s qdisc show dev vb$$ | grep -q 'dropped [1-9]' || fail "nothing was lost: $(tc -n $b -s qdisc show dev vb$$)"
    else
        kill -TERM $carrier
        wait $carrier
        carrier=
        grep -q '^[1-9][0-9]* carried, [1-9][0-9]* lost$' carried || fail "nothing was lost: $(cat carried)"
    fi
    ! grep -q '^flow: rank' out || { cat out; fail "somebody is taken for dead"; }
    run dp2 --steps 30 --export b.st && cmp a.st b.st || fail "other numbers" ;;
measured)
    tc -n $b qdisc add dev vb$$ root tbf rate 400mbit burst 256k limit 512k 2>log || skip "no tbf"
    over --check-cluster -o "$PWD/c.json" >out 2>&1 || { cat out; fail "exit code $?"; }
    grep -q '^axis dp: 2 ranks across hosts, ' out || { cat out; fail "it does not see two hosts"; }
    awk -F'[:,]' '/^  "hosts": 2,/ { n++ } /^  "devices": 1,/ { n++ } /^  "between":/ { n += $2 > 1e6 && $2 < 6e7 } /^  "inside/ { n = -9 }
        END { exit n != 3 }' c.json || { cat c.json; fail "other numbers"; }
    "$flowc" "$repo/examples/gpt/gpt.flow" --plan dp2 --check --cluster c.json 2>out || { cat out; fail "flowc does not read it"; } ;;
cut_off)
    over --steps 100000 --save "$PWD/ck" --save-every 20 >out 2>&1 &
    job=$!
    checkpointed ck
    ip -n $a link set va$$ down
    ended 40
    reported 'rank 1 does not answer (process [0-9]* on host-b: stopped, dead or cut off)'
    grep -q 'rank 0: arrived at .*, waiting [0-9]* s for ' out || { cat out; fail "it does not say who waits where"; }
    clean
    unset OMPI_MCA_plm_rsh_agent OMPI_MCA_btl OMPI_MCA_btl_tcp_if_include OMPI_MCA_oob_tcp_if_include
    resumes ck dp2 ;;
esac
cd /
rm -rf "$work"
