#!/usr/bin/env bash
# Installs the Debian packages that flowc needs, as root or through sudo; does nothing when they are all there.
#   scripts/install.sh        what building and running for `cpu` needs
#   scripts/install.sh test   what the tests need besides
set -eu
packages="gcc make cmake pkg-config flex bison libjansson-dev libpcre2-dev libstb-dev openmpi-bin libopenmpi-dev"
[ "${1:-}" = test ] && packages="$packages libcmocka-dev"
missing=
for p in $packages; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $p"
done
# A compiler or cmake that did not come from a package serves as well.
for p in gcc make cmake; do
    command -v "$p" >/dev/null 2>&1 && missing=$(printf '%s ' $missing | sed "s/\b$p \b//")
done
[ -z "${missing// /}" ] && exit 0
if [ "$(id -u)" = 0 ]; then as_root=; else as_root=sudo; fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
$as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
