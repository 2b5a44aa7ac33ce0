#!/bin/sh
# over_tls - an API test once more, over TLS.
#
#   tests/api/over_tls.sh PROGRAM
set -eu
NIB_TEST_TLS=$(mktemp -d "$NIB_BUILDDIR/certs-XXXXXX")
export NIB_TEST_TLS
trap 'rm -rf "$NIB_TEST_TLS"' EXIT
trap 'exit 1' HUP INT TERM
sh "$NIB_SRCDIR/tests/tls/certs.sh" "$NIB_TEST_TLS"
"$1"
