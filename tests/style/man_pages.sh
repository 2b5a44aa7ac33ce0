# man_pages - every page of man/ passes mandoc's lint without a warning.
set -u

if [ "${MANDOC:-no}" = no ]; then
    echo "1..0 # SKIP mandoc is not installed (Debian: mandoc)"
    exit 0
fi

count=0
for page in "$NIB_SRCDIR"/man/*.[1-9]; do
    [ -f "$page" ] || continue
    count=$((count + 1))
    name=man/${page##*/}
    if faults=$("$MANDOC" -T lint -W warning "$page" 2>&1); then
        echo "ok $count - $name"
    else
        echo "not ok $count - $name"
        printf '%s\n' "$faults" | sed 's/^/# /'
    fi
done
if [ $count -eq 0 ]; then
    echo "1..0 # SKIP there are no pages"
else
    echo "1..$count"
fi
