# Sourced by scripts that build and run programs, with FLOWC and WORK, and for the cuda target with DOUBLE, the objects of
# the test double. They go on in an empty folder WORK, and end with `finish`.
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
start=$PWD                              # objects of the double know their sources from here
. "$tests/../scripts/mpi-env.sh"
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 1
export OMP_NUM_THREADS=1 FL_DOUBLE_SEED="${FL_DOUBLE_SEED:-1}" ASAN_OPTIONS=detect_leaks=0
fail() { echo "FAILED: $*" >&2; exit 1; }
compile() { # NAME TARGET FILE PLAN flags..: to the text of NAME
    "$flowc" "$3" --plan "$4" --target "$2" -o "$1" "${@:5}" 2>said || { cat said; fail "$3 under $4 does not compile"; }
}
build() { # NAME TARGET FILE PLAN flags..: the program NAME/run, or NAME/run.double
    compile "$@"
    if [ "$2" = cpu ]; then make -s -C "$1" -j2 ${FL_RUNTIME_LIB:+RUNTIME="$FL_RUNTIME_LIB"}
    else make -s -C "$start" -f "$tests/cuda/double/double.mk" PROGRAM="$work/$1" BUILD="$double"; fi
}
run() { # NAME args..: on the ranks of its plan; what it says goes to `text`
    local program=$1/run
    [ -e "$program" ] || program=$program.double
    mpirun -n "$(sed -n 's/^RANKS := //p' "$1/Makefile")" --oversubscribe "$program" --quiet "${@:2}" >text 2>&1 || { cat text; fail "$*"; }
}
finish() { # a script that fails leaves its folder
    cd /
    rm -rf "$work"
    echo ok
}
