# Sourced by the scripts of this area with FLOWC WORK HERE [DOUBLE]: builds and runs of the cpu target, or with a build
# folder of the double of CUDA of the cuda target.
flowc=$1 work=$2 here=$3 double=${4:-}
start=$PWD                                                 # objects of the double know their sources from here
. "$here/../../scripts/mpi-env.sh"
rm -rf "$work"
mkdir -p "$work"
cd "$work"
export OMP_NUM_THREADS=1 FL_DOUBLE_SEED=1 ASAN_OPTIONS=detect_leaks=0
build() { # DIR FILE flags..
    "$flowc" "$2" -o "$1" "${@:3}" --target "$([ -z "$double" ] && echo cpu || echo cuda)" 2>log || { cat log; exit 1; }
    if [ -z "$double" ]; then
        make -s -C "$1" -j2 ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"} >log 2>&1 || { cat log; exit 1; }
    else
        make -s -C "$start" -f "$here/../cuda/double/double.mk" PROGRAM="$work/$1" BUILD="$double" >log 2>&1 || { cat log; exit 1; }
        ln -sf run.double "$1/run"
    fi
}
run() { # DIR args..
    timeout 100 mpirun -n "$(sed -n 's/^RANKS := //p' "$1/Makefile")" --oversubscribe "$1/run" --quiet "${@:2}"
}
fail() { echo "$*"; exit 1; }
refused() { if "$@" >out 2>&1; then cat out; fail "not refused: $*"; fi; }
said() { grep -q -- "$1" out || { cat out; fail "does not say: $1"; }; }
