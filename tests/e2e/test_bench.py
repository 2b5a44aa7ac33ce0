"""test_bench - nib-bench: the paths of its server, and each scenario against it.

What the scenarios measure is not looked at, only that they count right.
"""

import json
import signal
import socket
import threading

import nibtest
from nibtest import BINARY, CLOSE, TEXT


def serve(*options):
    return nibtest.Server("nib-bench", "serve", *options, "127.0.0.1:0")


def run(scenario, *args):
    """Runs a scenario with --json. Returns its object."""
    status, out, err = nibtest.command("nib-bench", scenario, "--json", *args,
                                       seconds=4 * nibtest.PATIENCE)
    nibtest.equal((status, err), (0, ""), "status and stderr")
    nibtest.equal(out.count("\n"), 1, "lines of JSON")
    return json.loads(out)


# --- the server -------------------------------------------------------------

@nibtest.case("/bench: stream with defaults, with numbers, and hello")
def path_bench():
    with serve() as server, nibtest.Peer(server) as peer:
        peer.upgrade("/bench")
        for order, count, size in ((b"stream", 10000, 32),
                                   (b"stream 3", 3, 32),
                                   (b"stream 5 100000", 5, 100000),
                                   (b"stream 2 0", 2, 0)):
            peer.send_frame(TEXT, order)
            for _ in range(count):
                nibtest.equal(peer.read_message(), (TEXT, b"x" * size))
        peer.send_frame(TEXT, b"streams")
        nibtest.equal(peer.read_message(), (TEXT, b"hello"))
        nibtest.equal(peer.read_close(), (1000, ""))
        peer.send_frame(CLOSE, nibtest.close_payload(1000))
        peer.read_eof()


@nibtest.case("/seq: numbered messages; too small or unclear is 1008")
def path_seq():
    with serve() as server:
        with nibtest.Peer(server) as peer:
            peer.upgrade("/seq")
            for size in (10, 1024):
                peer.send_frame(TEXT, b"stream 1100 %d" % size)
                for i in range(1100):
                    nibtest.equal(peer.read_message(),
                                  (TEXT, (b"%010d" % i).ljust(size, b"x")))
            peer.close()
        for order in (b"stream 10 9", b"hello", b"stream 10 x", b"stream 1 2 3",
                      b"stream  1 20", b"stream -1 20"):
            with nibtest.Peer(server) as peer:
                peer.upgrade("/seq")
                peer.send_frame(TEXT, order)
                nibtest.equal(peer.read_close()[0], 1008, repr(order))


@nibtest.case("/echo, /echo-blocking and /hello")
def path_echo():
    with serve() as server:
        for path in ("/echo", "/echo-blocking"):
            with nibtest.Peer(server) as peer:
                peer.upgrade(path)
                for kind, data in ((TEXT, b""), (BINARY, b"\xff\x00"),
                                   (TEXT, b"t" * 300000)):
                    peer.send_frame(kind, data)
                    nibtest.equal(peer.read_message(), (kind, data), path)
                peer.close()
        with nibtest.Peer(server) as peer:
            peer.upgrade("/hello")
            peer.send_frame(TEXT, b"x")
            nibtest.equal(peer.read_message(), (TEXT, b"hello"))
            nibtest.equal(peer.read_close(), (1000, ""))


@nibtest.case("/echo: more than any buffer holds loses nothing")
def echo_backlog():
    count, data = 400, b"e" * 65536
    with serve() as server, nibtest.Peer(server) as peer:
        peer.upgrade("/echo")
        frames = nibtest.frame(TEXT, data) * count
        # 25 MB find no room in any buffer: they wait for us to read.
        writer = threading.Thread(target=peer.send, args=(frames,))
        writer.start()
        for _ in range(count):
            nibtest.equal(peer.read_message() == (TEXT, data), True)
        writer.join()
        peer.close()


@nibtest.case("/all: each message to all, the sender included")
def path_all():
    with serve() as server:
        peers = [nibtest.Peer(server) for _ in range(5)]
        for peer in peers:
            peer.upgrade("/all")
        for i, sender in enumerate(peers):
            sender.send_frame(TEXT, b"from %d" % i)
            for peer in peers:
                nibtest.equal(peer.read_message(), (TEXT, b"from %d" % i))
        for peer in peers:
            peer.close()


@nibtest.case("/reject is 403 with a body, / lists the paths, others are 404")
def path_reject():
    with serve() as server:
        with nibtest.Peer(server) as peer:
            peer.request_upgrade("/reject")
            status, headers = peer.read_head()
            nibtest.equal(status, 403)
            nibtest.equal(peer.read(int(headers["content-length"])),
                          b"This path refuses every upgrade.\n")
            peer.read_eof()
        status, _, body = nibtest.http(server, "/")
        nibtest.equal(status, 200)
        nibtest.equal(body.split(), [b"/bench", b"/seq", b"/echo",
                                     b"/echo-blocking", b"/hello", b"/all",
                                     b"/reject"])
        nibtest.equal(nibtest.http(server, "/nothing")[0], 404)


def counters(server):
    """What SIGUSR1 makes it print: upgraded, messages_in, messages_out and
    connections."""
    before = len(server.errors())
    server.send_signal(signal.SIGUSR1)
    nibtest.until(lambda: server.errors()[before:].endswith("\n"),
                  "statistics")
    now = json.loads(server.errors()[before:])
    return (now["upgraded"], now["messages_in"], now["messages_out"],
            now["connections"])


@nibtest.case("statistics at SIGUSR1 and with --stats at the end")
def statistics():
    with serve("--stats") as server:
        with nibtest.Peer(server) as peer:
            peer.upgrade("/echo")
            peer.send_frame(TEXT, b"x")
            peer.read_message()
            # Counted behind the write that the peer has seen.
            nibtest.until(lambda: counters(server) == (1, 1, 1, 1),
                          "the counters")
            peer.close()
        nibtest.equal(server.stop(), 0)
        last = json.loads(server.errors().splitlines()[-1])
        nibtest.equal((last["accepted"], last["connections"]), (1, 0))


@nibtest.case("a second signal ends it at once, with status 1")
def second_signal():
    with serve() as server, nibtest.Peer(server) as peer:
        peer.upgrade("/echo")
        server.send_signal(signal.SIGTERM)
        nibtest.equal(peer.read_close()[0], 1001)  # which we leave unanswered
        nibtest.equal(server.stop(signal.SIGINT), 1)


# --- the scenarios ----------------------------------------------------------

@nibtest.case("stream counts, verifies, and takes medians")
def stream():
    with serve() as server:
        result = run("stream", "-n", "5000", server.ws("/bench"))
        nibtest.equal(result["median"]["messages"], 5000)
        nibtest.equal(len(result["rounds"]), 1)
        result = run("stream", "-c", "3", "-n", "2000", "-s", "1k", "--verify",
                     "--repeat", "3", "--server-pid", str(server.pid),
                     server.ws("/seq"))
        nibtest.equal([r["messages"] for r in result["rounds"]], [6000] * 3)
        nibtest.equal(result["median"]["server_cpu_s"] is None, False)


@nibtest.case("stream --verify finds what is not in order")
def stream_faults():
    with serve() as server:
        status, out, err = nibtest.command(
            "nib-bench", "stream", "--verify", server.ws("/bench"))
        nibtest.equal((status, out), (1, ""))
        nibtest.equal("message 0, byte 0: 0x78 instead of '0'" in err, True,
                      err)


@nibtest.case("cycle counts its cycles, one after the other and at once")
def cycle():
    with serve() as server:
        for path in ("/bench", "/hello"):
            run("cycle", "-n", "50", server.ws(path))
            run("cycle", "-n", "100", "-p", "8", "--silent", "20",
                server.ws(path))


@nibtest.case("echo: one connection, several, and large messages")
def echo():
    with serve() as server:
        for options in ([], ["-c", "5", "-i", "8"], ["-c", "2", "-i", "20",
                                                     "-s", "200k"]):
            for path in ("/echo", "/echo-blocking"):
                run("echo", "-t", "100ms", *options, server.ws(path))


@nibtest.case("idle opens what it is told to and reads the server's memory")
def idle():
    with serve() as server:
        result = run("idle", "-c", "300", "--settle", "0", "--server-pid",
                     str(server.pid), server.ws("/echo"))["median"]
        nibtest.equal(result["connections"], 300)
        nibtest.equal(result["anonymous_bytes"] > 0, True)


@nibtest.case("broadcast counts every delivery")
def broadcast():
    with serve() as server:
        result = run("broadcast", "-c", "20", "--senders", "3", "--processes",
                     "2", "-t", "200ms", server.ws("/all"))["median"]
        nibtest.equal(result["deliveries"], 23 * result["messages"])
        nibtest.equal(result["messages"] > 0, True)


@nibtest.case("refused, gone, and silent servers are told, with status 1")
def failures():
    with serve() as server:
        for scenario in ("stream", "cycle", "echo", "idle", "broadcast"):
            status, out, err = nibtest.command("nib-bench", scenario,
                                               server.ws("/reject"))
            nibtest.equal((status, out), (1, ""), scenario)
            nibtest.equal("refused: 403 Forbidden" in err, True, err)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = "ws://127.0.0.1:%d/" % silent.getsockname()[1]
        for scenario in ("stream", "cycle", "echo", "idle", "broadcast"):
            status, out, err = nibtest.command("nib-bench", scenario,
                                               "--timeout", "200ms", url)
            nibtest.equal((status, out), (1, ""), scenario)
            nibtest.equal(err != "", True, scenario)


@nibtest.case("usage errors are status 2 and say what was expected")
def usage():
    for args, text in [
            ([], "Usage: nib-bench"),
            (["foo"], "'foo' is not a scenario"),
            (["stream"], "expected URL"),
            (["echo", "https://h/"], "expected ws://HOST"),
            (["echo", "--raw", "ws://h/"], "expected HOST:PORT"),
            (["stream", "-n", "1k", "ws://h/"], "'1k' is not a number"),
            (["stream", "-s", "1x", "ws://h/"], "'1x' is not a size"),
            (["stream", "--verify", "-s", "9", "ws://h/"], "at least 10"),
            (["serve", "x"], "expected [addr:]port"),
            (["serve", "--ping", "30", "0"], "'30' is not a duration"),
            (["cycle", "--pin", "1023", "ws://127.0.0.1:1/"], "CPU 1023")]:
        status, out, err = nibtest.command("nib-bench", *args)
        nibtest.equal((status, out), (2, ""), "status and stdout of %r" % args)
        nibtest.equal(text in err, True, "%r in %r" % (text, err))


nibtest.run()
