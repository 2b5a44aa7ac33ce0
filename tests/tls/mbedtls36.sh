#!/bin/sh
# mbedtls36 - Mbed TLS 3.6 beside the system's, to build and test against.
#
#   tests/tls/mbedtls36.sh [FOLDER]
#
# Fetches Debian 13's packages from the mirror that this machine uses, with
# an apt state of its own, and unpacks them in FOLDER (mbedtls36); nothing is
# installed. Prints what to give to configure:
#
#   eval "../configure $(../tests/tls/mbedtls36.sh)"
#
# What is there already is not fetched again.
set -eu
suite=trixie
packages="libmbedtls-dev libmbedtls21 libmbedx509-7 libmbedcrypto16"

mkdir -p "${1:-mbedtls36}"
cd "${1:-mbedtls36}"
folder=$(pwd)

die() { printf 'mbedtls36: %s\n' "$*" >&2; exit 1; }

# The mirror of Debian's main archive, and where apt keeps its keys.
# shellcheck disable=SC2016 # apt's fields
site=$(apt-get indextargets --format '$(REPO_URI)' \
           'Origin: Debian' 'Label: Debian' 'Component: main' | head -n 1)
[ -n "$site" ] || die "apt knows no archive of Debian; run apt-get update"
keys=/usr/share/keyrings/debian-archive-keyring.gpg

# apt, but for its configuration of proxies and the like, in this folder.
own_apt() {
    apt-get -q \
        -o Dir::State="$folder/apt" \
        -o Dir::State::status="$folder/apt/status" \
        -o Dir::Cache="$folder/apt/cache" \
        -o Dir::Etc::SourceList="$folder/apt/sources.list" \
        -o Dir::Etc::SourceParts=/dev/null \
        -o APT::Sandbox::User="$(id -un)" \
        -o Acquire::Languages=none \
        -o Debug::NoLocking=1 "$@" >&2
}

fetch() {
    mkdir -p apt/lists/partial apt/cache/archives/partial
    : >apt/status
    echo "deb [signed-by=$keys] $site $suite main" >apt/sources.list
    own_apt update
    # shellcheck disable=SC2086 # a list of words
    own_apt download $packages
    rm -rf tree
    for package in ./*.deb; do
        dpkg -x "$package" tree
    done
    rm -rf apt ./*.deb
    touch complete
}

[ -e complete ] || fetch

lib=$(dirname "$(find "$folder/tree/usr/lib" -name libmbedtls.so)")
printf "CPPFLAGS='-I%s' LDFLAGS='-L%s -Wl,-rpath,%s'\n" \
    "$folder/tree/usr/include" "$lib" "$lib"
