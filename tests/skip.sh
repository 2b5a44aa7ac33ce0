# skip.sh - stands in for an interpreter that is missing: skips the test.
echo "1..0 # SKIP $1 is not installed"
