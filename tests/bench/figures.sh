#!/bin/bash
# figures.sh - measures the figures of the README anew, and judges them.
#
# Everything runs over loopback. Servers run on CPU 0 and clients on CPU 1,
# nib's and those that it is compared with alike. What is compared alternates,
# round by round, and medians are compared: other work on the machine then
# falls on both. Exit status: 0, 1 if a target was missed or a program failed,
# 2 for a usage error.

set -u
shopt -s lastpipe

build=${NIB_BUILDDIR:-.}
yardstick=${NIB_YARDSTICK:-}
rounds=7
rows="stream wakes seq cycle echo idle silent"

usage() {
    cat <<END
Usage: figures.sh [OPTION]... [ROW]...

Measures nib's figures and compares them with their targets. ROWs are some of:
  $rows

  -b DIR     where nib-bench and tests/bench/epoll_echo were built
             (default: \$NIB_BUILDDIR, or the working directory)
  -y FILE    the yardstick of the row "stream": a program, or the C file of
             one, that is called with "20000000 pin" and prints its rate as
             "... NUMBERM msg/s" (default: \$NIB_YARDSTICK; without it the
             row is skipped)
  -r N       rounds (default $rounds)
  -h         this text
END
}

while getopts b:y:r:h option; do
    case $option in
    b) build=$OPTARG ;;
    y) yardstick=$OPTARG ;;
    r) rounds=$OPTARG ;;
    h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] && wanted="$*" || wanted=$rows

bench=$build/nib-bench
echo_server=$build/tests/bench/epoll_echo
for program in "$bench" "$echo_server"; do
    if ! [ -x "$program" ]; then
        echo "figures.sh: $program is missing; build it, or name the folder" \
             "by -b" >&2
        exit 2
    fi
done

work=$(mktemp -d) || exit 1
servers=()
failed=0

stop_servers() {
    [ ${#servers[@]} -eq 0 ] && return
    kill "${servers[@]}" 2>/dev/null
    wait "${servers[@]}" 2>/dev/null
    servers=()
}
trap 'stop_servers; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# --- servers ----------------------------------------------------------------

# start NAME COMMAND...: starts a server and waits for its line. Sets
# address (HOST:PORT) and server (its process). Not in a subshell.
start() {
    local name=$1 tries line
    shift
    : >"$work/$name.out" # what an earlier one said is not to be read
    "$@" >"$work/$name.out" 2>"$work/$name.err" &
    server=$!
    servers+=("$server")
    for ((tries = 0; tries < 200; tries++)); do
        if read -r line <"$work/$name.out"; then
            address=${line##*listening on }
            address=${address#http://}
            address=${address%/}
            return
        fi
        sleep 0.05
    done
    echo "figures.sh: $name does not listen:" >&2
    cat "$work/$name.err" >&2
    exit 1
}

start_nib() {
    start nib taskset -c 0 "$bench" serve --threads 1 "$@" 127.0.0.1:0
    nib=$address
    nib_server=$server
}

start_echo() {
    start echo taskset -c 0 "$echo_server"
    echo_address=$address
}

# --- values -----------------------------------------------------------------

# measure SCENARIO ARGUMENT...: one run of nib-bench on CPU 1; its JSON is in
# $work/json.
measure() {
    if ! "$bench" "$1" --pin 1 --json "${@:2}" >"$work/json" 2>"$work/why"; then
        failed=1
        echo "figures.sh: nib-bench $*:" >&2
        cat "$work/why" >&2
        return 1
    fi
}

# value KEY: of the last measure().
value() {
    sed -n 's/.*"median": {.*"'"$1"'": \([-0-9.e+]*\).*/\1/p' "$work/json"
}

# note LIST KEY: appends a value of the last measure() to a list.
note() {
    value "$2" >>"$work/$1"
}

forget() {
    local list
    for list in "$@"; do
        : >"$work/$list"
    done
}

# median LIST
median() {
    sort -g "$work/$1" | awk '{ v[NR] = $1 }
        END { if (NR) print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

short() {
    awk -v x="$1" 'BEGIN {
        if (x == "") print "-"
        else if (x >= 1000000) printf "%.2f M\n", x / 1000000
        else if (x >= 1000) printf "%.0f\n", x
        else printf "%.4g\n", x }'
}

line() {
    printf '%-46s %12s %12s %8s  %-9s %s\n' "$@"
}

# judge WHAT OURS PEER RATIO at-least|at-most TARGET
judge() {
    local verdict
    verdict=$(awk -v x="$4" -v how="$5" -v t="$6" 'BEGIN {
        good = x != "" && (how == "at-most" ? x + 0 <= t : x + 0 >= t)
        print good ? "ok" : "MISSED" }')
    [ "$verdict" = ok ] || failed=1
    line "$1" "$(short "$2")" "$(short "$3")" "$(short "$4")" \
         "${5/at-most/<=}${5:+ }$6" "$verdict" | sed 's/at-least/>=/'
}

# ratio LIST LIST
ratio() {
    awk -v a="$(median "$1")" -v b="$(median "$2")" \
        'BEGIN { if (a != "" && b > 0) print a / b }'
}

compare() { # WHAT LIST PEER at-least|at-most TARGET
    judge "$1" "$(median "$2")" "$(median "$3")" "$(ratio "$2" "$3")" "$4" "$5"
}

# --- rows -------------------------------------------------------------------

# Sets trial to a program, built if need be.
find_trial() {
    case $yardstick in
    '') return 1 ;;
    *.c)
        trial=$work/yardstick
        "${CC:-cc}" -O3 -march=native -pthread -w "$yardstick" -o "$trial" ||
            exit 1
        ;;
    *) trial=$yardstick ;;
    esac
}

row_stream() {
    local i trial
    if ! find_trial; then
        echo "stream: skipped; -y names no yardstick" >&2
        return
    fi
    forget stream trial
    start_nib
    for ((i = 0; i < rounds; i++)); do
        "$trial" 20000000 pin |
            sed -n 's/.* \([0-9.]*\)M msg\/s.*/\1e6/p' >>"$work/trial"
        measure stream -n 20000000 -s 32 "ws://$nib/bench" &&
            note stream messages_per_s
    done
    stop_servers
    compare 'stream, 32 bytes, messages/s (peer: yardstick)' stream trial \
            at-least 0.5
}

# The counters of a server that has done nothing else.
row_wakes() {
    local per stats
    start_nib --stats
    measure stream -n 5000000 -s 32 "ws://$nib/bench"
    stop_servers
    stats=$(tail -n 1 "$work/nib.err")
    per=$(awk -v s="$stats" 'function get(key) {
            match(s, "\"" key "\": [0-9]+")
            return substr(s, RSTART + length(key) + 4, RLENGTH) + 0 }
        BEGIN { if (get("messages_out") > 0)
                    printf "%.7f\n", get("wakes") / get("messages_out") }')
    judge 'stream, eventfd writes per message' "$per" '' "$per" at-most 0.01
}

# Not pinned: the more the threads race, the better.
row_seq() {
    local i good options
    for options in '' '--sndbuf 4k'; do
        good=0
        # shellcheck disable=SC2086 # several words
        start nib "$bench" serve $options 127.0.0.1:0
        for ((i = 0; i < 20; i++)); do
            "$bench" stream -c 3 -n 10000 -s 1k --verify \
                "ws://$address/seq" >/dev/null && good=$((good + 1))
        done
        stop_servers
        judge "3 x 10000 x 1k in order, of 20${options:+ ($options)}" \
              "$good" '' "$good" at-least 20
    done
}

row_cycle() {
    local i
    forget raw handler callbacks
    start_nib
    start_echo
    for ((i = 0; i < rounds; i++)); do
        measure cycle --raw -n 2000 "$echo_address" && note raw cycle_p50_ms
        measure cycle -n 2000 "ws://$nib/bench" && note handler cycle_p50_ms
        measure cycle -n 2000 "ws://$nib/hello" && note callbacks cycle_p50_ms
    done
    stop_servers
    compare 'cycle, blocking handler, ms (peer: epoll echo)' handler raw \
            at-most 1.5
    compare 'cycle, callbacks, ms (peer: epoll echo)' callbacks raw \
            at-most 1.25
}

row_echo() {
    local i
    forget raw handler callbacks
    start_nib
    start_echo
    for ((i = 0; i < rounds; i++)); do
        measure echo --raw -t 1 "$echo_address" && note raw trip_p50_us
        measure echo -t 1 "ws://$nib/echo" && note callbacks trip_p50_us
        measure echo -t 1 "ws://$nib/echo-blocking" && note handler trip_p50_us
    done
    stop_servers
    compare 'echo, callbacks, us (peer: epoll echo)' callbacks raw at-most 1.25
    compare 'echo, blocking handler, us (peer: epoll echo)' handler raw \
            at-most 2
}

# A new server each time: memory that was used once comes back for nothing.
row_idle() {
    local i
    forget idle
    for ((i = 0; i < 3; i++)); do
        start_nib
        measure idle -c 10000 --server-pid "$nib_server" "ws://$nib/echo" &&
            note idle anonymous_bytes_each
        stop_servers
    done
    judge 'idle connection, callbacks, bytes of user memory' \
          "$(median idle)" '' "$(median idle)" at-most 600
}

row_silent() {
    local i
    forget alone beside
    start_nib
    for ((i = 0; i < rounds; i++)); do
        measure cycle -n 200 "ws://$nib/bench" && note alone handshake_p99_ms
        measure cycle -n 200 --silent 2000 "ws://$nib/bench" &&
            note beside handshake_p99_ms
    done
    stop_servers
    compare 'p99 handshake beside 2000 silent, ms (peer: alone)' beside alone \
            at-most 1.5
}

line what nib peer ratio target ''
for row in $wanted; do
    case " $rows " in
    *" $row "*) "row_$row" ;;
    *) echo "figures.sh: '$row' is not one of: $rows" >&2; exit 2 ;;
    esac
done
exit $failed
