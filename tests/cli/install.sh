#!/bin/sh
# install.sh FLOWC CMAKE BUILD GOOD.flow OWN.flow: flowc and flow-gate take the runtime that lies with it, wherever they were installed or moved to.
flowc=$1 cmake=$2 build=$3 good=$4 own=$5
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
fail() { echo "$*"; exit 1; }
"$cmake" --install "$build" --prefix "$work/there" >log 2>&1 || { cat log; fail "cmake --install"; }
mv there moved
moved/bin/flow-gate "$own" >log 2>&1 || { cat log; fail "the installed flow-gate"; }
[ -x moved/bin/flow-tokens ] || fail "flow-tokens is not installed"
echo '# the installed one' >>moved/share/flowc/templates/Makefile.cpu
echo '/* the installed one */' >>moved/share/flowc/runtime/flow_rt.h
moved/bin/flowc "$good" --target cpu -o out || fail "the installed flowc"
grep -q 'the installed one' out/Makefile && grep -q 'the installed one' out/runtime/flow_rt.h || fail "taken from elsewhere"
mkdir -p tree/build
cp "$flowc" tree/build/flowc
mv moved/share/flowc/runtime moved/share/flowc/templates tree
tree/build/flowc "$good" --target cpu -o out2 && grep -q 'the installed one' out2/Makefile || fail "beside the build directory"
