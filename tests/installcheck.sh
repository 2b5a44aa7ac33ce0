# installcheck - an application builds against the installed library, and runs.
#
# make installcheck [DESTDIR=...] hands over DESTDIR, LIBDIR, BINDIR, CC,
# CFLAGS, PKG_CONFIG and NIB_SRCDIR. Every program of tests/examples is
# compiled with nothing but what pkg-config says, with the shared and the
# static library; echo_blocking is run and spoken to by the installed nib.
set -eu

work=$(mktemp -d)
server=
cleanup() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || :
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

# A staged installation is seen as it would be at its final place.
PKG_CONFIG_PATH=$DESTDIR$LIBDIR/pkgconfig
export PKG_CONFIG_PATH
if [ -n "$DESTDIR" ]; then
    PKG_CONFIG_SYSROOT_DIR=$DESTDIR
    export PKG_CONFIG_SYSROOT_DIR
fi
LD_LIBRARY_PATH=$DESTDIR$LIBDIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

shared=$($PKG_CONFIG --cflags --libs nib)
static=$($PKG_CONFIG --static --cflags --libs nib | sed 's/-lnib\>/-l:libnib.a/')

# The header stands alone, in strict C11.
echo '#include <nib.h>' >"$work/header.c"
# shellcheck disable=SC2046,SC2086 # flags are words
$CC -std=c11 -Wall -Wextra -pedantic-errors -Werror -fsyntax-only \
    $($PKG_CONFIG --cflags nib) "$work/header.c"
echo "installcheck: nib.h stands alone"

for source in "$NIB_SRCDIR"/tests/examples/*.c; do
    [ -f "$source" ] || continue
    name=$(basename "$source" .c)
    # shellcheck disable=SC2086
    $CC $CFLAGS -o "$work/$name" "$source" $shared
    if [ -f "$DESTDIR$LIBDIR/libnib.a" ]; then
        # shellcheck disable=SC2086
        $CC $CFLAGS -o "$work/$name-static" "$source" $static
    fi
    echo "installcheck: $name compiles"
done

# Starts a program, waits for its address, sends a line and expects it back.
run_echo() {
    "$work/$1" tcp:127.0.0.1:0 >"$work/out" 2>&1 &
    server=$!
    tries=0
    until grep -q '^listening on ' "$work/out"; do
        tries=$((tries + 1))
        if [ $tries -gt 200 ] || ! kill -0 $server 2>/dev/null; then
            cat "$work/out" >&2
            echo "installcheck: $1 does not listen" >&2
            return 1
        fi
        sleep 0.05
    done
    url=$(sed -n 's|^listening on http://\([^/]*\)/.*|ws://\1/|p' "$work/out")
    answer=$(echo hello | "$DESTDIR$BINDIR/nib" -n 1 "$url")
    kill $server
    wait $server || :
    server=
    [ "$answer" = hello ] || {
        echo "installcheck: $1 answered '$answer'" >&2
        return 1
    }
    echo "installcheck: $1 runs"
}

for program in echo_blocking echo_blocking-static; do
    [ ! -x "$work/$program" ] || run_echo $program
done
