# rules.sh - files that break the rules of ownership do not compile.
#
# Each file here but control.c breaks one rule, and says after "expect:" what
# clang's capability analysis has to answer. Nothing else may be wrong with
# them: without the analysis they compile.
set -u

if [ "${CLANG:-no}" = no ]; then
    if [ -n "${NIB_CHECK_ALL:-}" ]; then
        printf '1..1\nnot ok 1 - clang is missing\n'
        exit 1
    fi
    echo "1..0 # SKIP clang is not installed"
    exit 0
fi

here=$NIB_SRCDIR/tests/analyze
count=0

compile() {
    "$CLANG" -std=gnu11 -D_GNU_SOURCE -I"$NIB_SRCDIR/lib" -fsyntax-only \
        -Werror "$@" 2>&1
}

report() {
    count=$((count + 1))
    echo "$1 $count - $2"
}

echo 1..9
if said=$(compile -Wthread-safety "$here/control.c"); then
    report ok "control.c keeps the rules"
else
    echo "$said" | sed 's/^/# /'
    report "not ok" "control.c keeps the rules"
fi
for file in owned_field owner_call lock_kept no_lock; do
    expected=$(sed -n 's/^ \* expect: //p' "$here/$file.c")
    if said=$(compile "$here/$file.c"); then
        report ok "$file.c compiles without the analysis"
    else
        echo "$said" | sed 's/^/# /'
        report "not ok" "$file.c compiles without the analysis"
    fi
    if said=$(compile -Wthread-safety "$here/$file.c"); then
        report "not ok" "$file.c is refused"
    elif echo "$said" | grep -qF "$expected"; then
        report ok "$file.c is refused"
    else
        echo "$said" | sed 's/^/# /'
        report "not ok" "$file.c is refused for the right reason"
    fi
done
