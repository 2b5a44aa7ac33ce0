"""test_story - the first story's two tests, over plain TCP.

A blocking handler that accepts, sends and closes from its own thread, 200
times; and 10 000 messages of 1 KB on each of three connections, every one
intact and in order, whatever the socket's buffers are.
"""

import json
import os

import nibtest
from nibtest import BINARY, CLOSE, PING, TEXT, equal

LOCAL = "127.0.0.1:0"
SANITIZED = nibtest.SANITIZERS not in ("no", "")
MESSAGES = 1000 if SANITIZED else 10000
RUNS = 3 if SANITIZED else 20
if os.environ.get("NIB_STRESS"):
    MESSAGES, RUNS = 10000, 20


def serve(*options, **more):
    return nibtest.Server("nib-bench", "serve", *options, LOCAL, **more)


@nibtest.case("200 times accept, send, close from a handler's thread")
def cycles():
    with serve() as server:
        for _ in range(200):
            with nibtest.Peer(server) as peer:
                peer.upgrade("/bench")
                peer.send_frame(TEXT, b"go")
                equal(peer.read_frame(), (True, TEXT, b"hello"))
                equal(peer.read_close(), (1000, ""))
                peer.send_frame(CLOSE, nibtest.close_payload(1000))
                peer.read_eof()


@nibtest.case("the same, 16 at once, by nib-bench cycle")
def parallel_cycles():
    with serve() as server:
        status, out, err = nibtest.command(
            "nib-bench", "cycle", "--count", "400", "--parallel", "16",
            server.ws("/bench"), seconds=4 * nibtest.PATIENCE)
        equal((status, err), (0, ""), out)


def stream(server, runs):
    """Every message verified, in every run."""
    status, out, err = nibtest.command(
        "nib-bench", "stream", "--verify", "--json", "-n", str(MESSAGES),
        "-s", "1024", "-c", "3", "-r", str(runs), server.ws("/seq"),
        seconds=10 * nibtest.PATIENCE)
    equal((status, err), (0, ""), out)
    for line in json.loads(out)["rounds"]:
        equal(line["messages"], 3 * MESSAGES, "messages of a round")


@nibtest.case("3 connections x 10 000 x 1 KB, run after run")
def numbered():
    with serve() as server:
        stream(server, RUNS)


@nibtest.case("the same with SO_SNDBUF of 4 KB")
def numbered_small():
    with serve("--sndbuf", "4096") as server:
        stream(server, 2)


@nibtest.case("the same with pings all the time")
def numbered_pings():
    with serve("--sndbuf", "4096") as server:
        with nibtest.Peer(server) as pinged:
            pinged.upgrade("/seq")
            pinged.send_frame(TEXT, b"stream %d 1024" % MESSAGES)
            pongs = check_numbered_with_pings(pinged)
            equal(pongs > 0, True, "pongs between messages")
            pinged.close()


def check_numbered_with_pings(peer):
    """Sends a ping whenever a few messages came; counts the pongs."""
    number = pongs = sent = 0
    while number < MESSAGES:
        fin, opcode, payload = peer.read_frame()
        if opcode == nibtest.PONG:
            equal(payload, b"%d" % pongs, "pong")
            pongs += 1
            continue
        equal((fin, opcode), (True, TEXT), "frame %d" % number)
        equal(payload, (b"%010d" % number).ljust(1024, b"x"))
        number += 1
        if number % 10 == 0 and sent - pongs < 10:
            peer.send_frame(PING, b"%d" % sent)
            sent += 1
    while pongs < sent:
        equal(peer.read_frame(), (True, nibtest.PONG, b"%d" % pongs))
        pongs += 1
    return pongs


@nibtest.case("a size below ten digits is refused by Close 1008")
def too_small():
    with serve() as server:
        with nibtest.Peer(server) as peer:
            peer.upgrade("/seq")
            peer.send_frame(TEXT, b"stream 1 9")
            equal(peer.read_close()[0], 1008)


@nibtest.case("a thousand large messages and a close at once: all arrive")
def send_then_close():
    """The close waits for what was sent: no last message is lost."""
    with serve("--sndbuf", "4096") as server:
        with nibtest.Peer(server) as peer:
            peer.upgrade("/bench")
            peer.send_frame(TEXT, b"stream 100 65536")
            peer.send_frame(BINARY, b"then close")
            for _ in range(100):
                equal(peer.read_message(), (TEXT, b"x" * 65536))
            equal(peer.read_message(), (TEXT, b"hello"))
            equal(peer.read_close(), (1000, ""))


nibtest.run()
