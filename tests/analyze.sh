# analyze.sh FLAGS -- FILES - clang's capability analysis over the library.
#
# Fails on each function that touches what it does not own. Says so, and
# fails, if there is no clang: silence would look like proof.
set -u

if [ "${CLANG:-no}" = no ]; then
    echo "analyze: clang is missing; on Debian: apt-get install clang" >&2
    exit 1
fi
flags=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    flags="$flags $1"
    shift
done
shift

failed=0
for file; do
    # shellcheck disable=SC2086 # flags are words
    "$CLANG" $flags -fsyntax-only -Wthread-safety -Werror "$file" || {
        echo "analyze: FAIL $file" >&2
        failed=$((failed + 1))
    }
done
echo "analyze: $# files, $failed failed ($("$CLANG" --version | sed 1q))"
[ $failed -eq 0 ]
