"""test_nibd - the daemon: start and stop, usage, page, hub and echo."""

import asyncio
import os
import resource
import select
import signal
import socket
import threading

import nibtest
from nibtest import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, equal

websockets = nibtest.need("websockets", "python3-websockets")

LOCAL = "127.0.0.1:0"

# Little room, so that it is soon full; and no pings among the messages.
SMALL = "--queue", "64k", "--max-message", "16k", "--ping", "0"


def hub(*options, **more):
    return nibtest.Server("nibd", "hub", *options, LOCAL, **more)


def echo(*options, **more):
    return nibtest.Server("nibd", "echo", *options, LOCAL, **more)


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


# --- the command line -------------------------------------------------------

def usage_error(words, expected):
    """The command line is refused with status 2; stderr says why."""
    status, out, err = nibtest.command("nibd", *words)
    equal(status, 2, "status of " + repr(words))
    equal(out, "", "stdout of " + repr(words))
    for text in expected:
        if text not in err:
            raise AssertionError("%r: %r is not in %r" % (words, text, err))


@nibtest.case("usage errors name the input, status 2")
def usage():
    usage_error([], ["expected a command"])
    usage_error(["frobnicate"], ["'frobnicate'"])
    usage_error(["--frobnicate"], ["'--frobnicate'"])
    usage_error(["hub"], ["[addr:]port"])
    usage_error(["hub", "0", "1"], ["'1'", "[addr:]port"])
    usage_error(["hub", "nonsense"], ["'nonsense'", "[addr:]port"])
    usage_error(["hub", "65536"], ["'65536'", "65535"])
    usage_error(["hub", "::1:80"], ["'::1:80'", "brackets"])
    usage_error(["hub", "0", "--frobnicate"], ["--frobnicate"])
    usage_error(["hub", "-x", "0"], ["-x"])
    usage_error(["hub", "0", "--queue"], ["--queue"])
    usage_error(["hub", "0", "--queue", "2x"], ["--queue", "'2x'", "64k"])
    usage_error(["hub", "0", "--queue", "1023"], ["--queue", "'1023'"])
    usage_error(["hub", "0", "--queue=3g"], ["--queue", "'3g'"])
    usage_error(["hub", "0", "--max-message", "124"], ["--max-message"])
    usage_error(["hub", "0", "--max-message=1m", "--queue=1m"],
                ["--queue", "--max-message", "2097152", "1048576"])
    usage_error(["hub", "0", "--ping", "25"], ["--ping", "'25'", "25s"])
    usage_error(["hub", "0", "--ping", "99ms"], ["--ping", "100ms"])
    usage_error(["hub", "0", "--ping", "2d"], ["--ping", "'2d'"])
    usage_error(["hub", "0", "--threads", "0"], ["--threads", "'0'", "256"])
    usage_error(["hub", "0", "--threads", "257"], ["--threads", "'257'"])
    usage_error(["hub", "0", "--path", "chat"], ["--path", "'chat'"])
    usage_error(["hub", "0", "--path", "/a?b"], ["--path", "'/a?b'"])
    usage_error(["echo", "0", "--path", "/"], ["--path"])


@nibtest.case("--help and --version, status 0")
def help_and_version():
    for words, expected in (
            (["-h"], "Usage: nibd COMMAND"), (["--help"], "echo"),
            (["hub", "-h"], "--path"), (["hub", "0", "--help"], "--queue"),
            (["echo", "--help"], "--ping"), (["--version"], "nibd (nib) "),
            (["hub", "--version"], "(nib) "), (["echo", "--version"], "(nib)")):
        status, out, err = nibtest.command("nibd", *words)
        equal((status, err), (0, ""), "status and stderr of " + repr(words))
        if expected not in out:
            raise AssertionError("%r is not in %r" % (expected, out))


# --- start and stop ---------------------------------------------------------

@nibtest.case("the printed address accepts connections at once")
def listening_line():
    with hub() as server:
        equal(server.url, "http://127.0.0.1:%d/" % server.port)
        equal(nibtest.http(server)[0], 200)
        equal(server.errors(), "", "stderr")
        equal(server.stop(), 0)
        equal(server.output(), "", "stdout after the line")


@nibtest.case("an address without a host is IPv4 and IPv6")
def dual_stack():
    with nibtest.Server("nibd", "hub", "0") as server:
        equal(server.url, "http://localhost:%d/" % server.port)
        server.host = "127.0.0.1"
        equal(nibtest.http(server)[0], 200)
        if has_ipv6():
            server.host = "::1"
            equal(nibtest.http(server)[0], 200)


@nibtest.case("an IPv6 address in brackets")
def ipv6():
    if not has_ipv6():
        raise nibtest.Skip("no IPv6 here")
    with nibtest.Server("nibd", "hub", "[::1]:0") as server:
        equal(server.url, "http://[::1]:%d/" % server.port)
        equal(nibtest.http(server)[0], 200)


@nibtest.case("an address that is taken: its name and the reason, status 1")
def address_taken():
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = "127.0.0.1:%d" % other.getsockname()[1]
        status, out, err = nibtest.command("nibd", "hub", address)
    equal((status, out), (1, ""), "status and stdout")
    for text in ("nibd: ", address, "Address already in use"):
        if text not in err:
            raise AssertionError("%r is not in %r" % (text, err))
    equal(err.count("\n"), 1, "lines on stderr")


@nibtest.case("an address of another machine: status 1")
def address_elsewhere():
    status, out, err = nibtest.command("nibd", "echo", "192.0.2.1:0")
    equal((status, out), (1, ""), "status and stdout")
    if "192.0.2.1:0" not in err or "Cannot assign" not in err:
        raise AssertionError(err)


def drains(number):
    with hub() as server, nibtest.Peer(server) as peer:
        peer.upgrade()
        server.send_signal(number)
        equal(peer.read_close()[0], 1001, "code")
        peer.send_frame(CLOSE, nibtest.close_payload(1001))
        peer.read_eof()
        equal(server.wait(), 0, "status")


@nibtest.case("SIGTERM: Close 1001, then status 0")
def sigterm():
    drains(signal.SIGTERM)


@nibtest.case("SIGINT: Close 1001, then status 0")
def sigint():
    drains(signal.SIGINT)


@nibtest.case("a client that never answers the Close holds nobody up for ever")
def silent_at_the_end():
    with hub() as server, nibtest.Peer(server) as peer:
        peer.upgrade()
        equal(server.stop(), 0, "status")


@nibtest.case("a second signal ends the process at once, status 1")
def second_signal():
    for second in (signal.SIGTERM, signal.SIGINT):
        with hub() as server, nibtest.Peer(server) as peer:
            peer.upgrade()
            server.send_signal(signal.SIGTERM)
            equal(peer.read_close()[0], 1001, "code")
            equal(server.stop(second), 1, "status")


@nibtest.case("the limit of open files is raised to the hard limit")
def descriptor_limit():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

    def lower():
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))

    with hub(preexec=lower) as server:
        soft = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)[0]
        equal(soft, hard, "soft limit")


@nibtest.case("SIGPIPE is ignored")
def sigpipe():
    with hub() as server:
        server.send_signal(signal.SIGPIPE)
        equal(nibtest.http(server)[0], 200)


# --- the page ---------------------------------------------------------------

@nibtest.case("the page: as in the source, and allowed nothing from outside")
def page():
    source = os.path.join(os.environ.get("NIB_SRCDIR", "."),
                          "daemon/page.html")
    with open(source, "rb") as file:
        expected = file.read()
    with hub() as server:
        status, headers, body = nibtest.http(server)
        equal(status, 200)
        equal(body, expected, "body")
        equal(headers["content-length"], str(len(expected)))
        equal(headers["content-type"], "text/html; charset=utf-8")
        equal(headers["cache-control"], "no-cache")
        equal(headers["x-content-type-options"], "nosniff")
        policy = headers["content-security-policy"].split("; ")
        equal("default-src 'none'" in policy, True, "policy")
        equal(nibtest.http(server, "/?from=mail")[0], 200)


@nibtest.case("the page: HEAD, other methods, several requests at a time")
def page_methods():
    with hub() as server:
        length = len(nibtest.http(server)[2])
        status, headers, body = nibtest.http(server, method="HEAD")
        equal((status, headers["content-length"], body),
              (200, str(length), b""), "HEAD")
        status, headers, _ = nibtest.http(server, method="DELETE")
        equal((status, headers.get("allow")), (405, "GET, HEAD"), "DELETE")
        connection = nibtest.http_connection(server)
        for _ in range(3):
            connection.request("GET", "/")
            equal(len(connection.getresponse().read()), length)
        connection.close()


@nibtest.case("--path: the hub is there and nowhere else")
def path():
    with hub("--path", "/chat") as server:
        equal(server.url, "http://127.0.0.1:%d/chat" % server.port)
        for where, expected in (("/chat", 200), ("/", 404), ("/chat/", 404),
                                ("/chat/x", 404), ("/chatter", 404),
                                ("/favicon.ico", 404)):
            equal(nibtest.http(server, where)[0], expected, where)
        with nibtest.Peer(server) as peer:
            peer.upgrade("/chat")
            peer.close()
        with nibtest.Peer(server) as peer:
            peer.request_upgrade("/")
            equal(peer.read_head()[0], 404, "status of an upgrade")


# --- the hub ----------------------------------------------------------------

def members(server, count, scenario):
    """Runs scenario(list of `count` websockets clients)."""
    async def main():
        clients = [await websockets.connect(server.ws(), max_size=None,
                                            compression=None)
                   for _ in range(count)]
        await scenario(clients)
        for client in clients:
            await client.close()
            equal(client.close_code, 1000, "close code")
    asyncio.run(asyncio.wait_for(main(), nibtest.PATIENCE))


@nibtest.case("everyone hears everyone, text and binary, also oneself")
def chat():
    async def scenario(clients):
        for number, client in enumerate(clients):
            for message in ("I am %d \u2764" % number, bytes([number, 0, 255]),
                            "", b""):
                await client.send(message)
                heard = [await c.recv() for c in clients]
                equal(heard, [message] * len(clients), "heard")
    with hub() as server:
        members(server, 4, scenario)


@nibtest.case("all hear the same order, on several threads")
def one_order():
    async def scenario(clients):
        async def speak(number, client):
            for count in range(200):
                await client.send("%d %d" % (number, count))

        async def listen(client):
            return [await client.recv() for _ in range(200 * len(clients))]

        heard = (await asyncio.gather(
            *(listen(c) for c in clients),
            *(speak(*c) for c in enumerate(clients))))[:len(clients)]
        for number in range(len(clients)):
            equal([m for m in heard[0] if m.startswith("%d " % number)],
                  ["%d %d" % (number, count) for count in range(200)],
                  "messages of %d" % number)
        for other in heard[1:]:
            equal(other, heard[0], "order")
    with hub("--threads", "3") as server:
        members(server, 6, scenario)


@nibtest.case("any Origin may join")
def origins():
    with hub() as server:
        for origin in ("https://example.org", "null", "nonsense"):
            with nibtest.Peer(server) as peer:
                peer.upgrade(headers=[("Origin", origin)])
                peer.close()


@nibtest.case("who leaves, in order or not, leaves the others alone")
def leaving():
    with hub() as server, nibtest.Peer(server) as stays:
        stays.upgrade()
        for number in range(20):
            with nibtest.Peer(server) as leaves:
                leaves.upgrade()
                text = b"bye %d" % number
                leaves.send_frame(TEXT, text)
                equal(leaves.read_message(), (TEXT, text))
                if number % 2:
                    leaves.close()
                else:
                    leaves.reset()
            equal(stays.read_message(), (TEXT, text))
        stays.close()


@nibtest.case("--max-message: one more byte is 1009, for its sender alone")
def max_message():
    with hub("--max-message", "1000") as server, \
            nibtest.Peer(server) as one, nibtest.Peer(server) as other:
        one.upgrade()
        other.upgrade()
        one.send_frame(BINARY, b"x" * 1000)
        equal(other.read_message(), (BINARY, b"x" * 1000))
        equal(one.read_message(), (BINARY, b"x" * 1000))
        one.send_frame(BINARY, b"x" * 1001)
        equal(one.read_close()[0], 1009, "code")
        other.send_frame(TEXT, b"still here")
        equal(other.read_message(), (TEXT, b"still here"))
        other.close()


@nibtest.case("the largest message that can be set passes through whole")
def large_message():
    message = os.urandom(1 << 20) * 8
    with hub("--max-message", "8m", "--ping", "0") as server, \
            nibtest.Peer(server) as one, nibtest.Peer(server) as other:
        one.upgrade()
        other.upgrade()
        sender = threading.Thread(target=one.send_frame, args=(BINARY, message))
        sender.start()
        equal(other.read_message(), (BINARY, message))
        sender.join()
        equal(one.read_message(), (BINARY, message))
        one.close()
        other.close()


def numbered(number, size):
    return (b"%010d" % number).ljust(size, b"x")


@nibtest.case("a publisher that is too fast has to wait; nothing is lost")
def back_pressure():
    count, size = 4000, 8192
    with hub(*SMALL) as server, \
            nibtest.Peer(server) as sender, nibtest.Peer(server) as reader:
        sender.upgrade()
        reader.upgrade()

        def publish():
            for number in range(count):
                sender.send_frame(BINARY, numbered(number, size))

        def listen(peer):
            for number in range(count):
                equal(peer.read_message(), (BINARY, numbered(number, size)))

        own = Worker(listen, sender)
        publishing = Worker(publish)
        listen(reader)
        publishing.result()
        own.result()
        sender.close()
        reader.close()


class Worker(threading.Thread):
    """A thread whose exception is raised by result()."""

    def __init__(self, function, *args):
        super().__init__(daemon=True)
        self.function, self.args, self.error = function, args, None
        self.start()

    def run(self):
        try:
            self.function(*self.args)
        except Exception as error:
            self.error = error

    def result(self):
        self.join(nibtest.PATIENCE)
        if self.is_alive():
            raise TimeoutError(self.function.__name__)
        if self.error:
            raise self.error


@nibtest.case("a member that does not read is closed, and hurts nobody")
def slow_member():
    count, size = 4000, 8192
    with hub(*SMALL) as server, \
            nibtest.Peer(server) as sender, \
            nibtest.Peer(server, receive_buffer=4096) as slow:
        sender.upgrade()
        slow.upgrade()
        for number in range(count):
            sender.send_frame(BINARY, numbered(number, size))
            equal(sender.read_message(), (BINARY, numbered(number, size)))
        # What was on its way to the slow one arrives, whole and in order.
        for number in range(count):
            _, opcode, payload = slow.read_frame()
            if opcode == CLOSE:
                break
            equal(payload, numbered(number, size))
        equal((opcode, payload),
              (CLOSE, nibtest.close_payload(1013, "slow consumer")), "end")
        slow.send_frame(CLOSE, nibtest.close_payload(1013))
        slow.read_eof()
        sender.close()


# --- echo -------------------------------------------------------------------

@nibtest.case("echo: kinds, sizes, fragments, any path")
def echo_messages():
    with echo() as server, nibtest.Peer(server) as peer:
        peer.upgrade("/any/path?at=all")
        for kind in (TEXT, BINARY):
            for size in (0, 1, 125, 126, 65535, 65536, 1 << 20):
                peer.send_frame(kind, b"x" * size)
                equal(peer.read_message(), (kind, b"x" * size))
        peer.send_frame(TEXT, b"one", fin=False)
        peer.send_frame(PING, b"between")
        peer.send_frame(CONTINUATION, b"two")
        equal(peer.read_frame(), (True, PONG, b"between"))
        equal(peer.read_message(), (TEXT, b"onetwo"))
        peer.close()


@nibtest.case("echo: a plain request is answered 426")
def echo_plain():
    with echo() as server:
        status, headers, _ = nibtest.http(server)
        equal((status, headers.get("upgrade")), (426, "websocket"))


@nibtest.case("echo: a client that does not read has to wait; nothing is lost")
def echo_back_pressure():
    size = 4096
    limit = (64 << 20) // size
    with echo(*SMALL) as server, \
            nibtest.Peer(server) as peer:
        peer.upgrade()
        sent = 0
        rest = b""
        peer.sock.setblocking(False)
        # Until the socket takes nothing more: one second is long for a
        # server that reads on.
        while sent < limit and select.select([], [peer.sock], [], 1)[1]:
            rest = rest or nibtest.frame(BINARY, numbered(sent, size))
            rest = rest[peer.sock.send(rest):]
            sent += not rest
        if sent == limit:
            raise AssertionError("the server takes 64 MB without being read")
        peer.sock.settimeout(nibtest.PATIENCE)
        finish = Worker(peer.send, rest)
        for number in range(sent + bool(rest)):
            equal(peer.read_message(), (BINARY, numbered(number, size)))
        finish.result()
        peer.send_frame(TEXT, b"and on")
        equal(peer.read_message(), (TEXT, b"and on"))
        peer.close()


@nibtest.case("--ping: who answers stays, who does not gets 1001")
def pings():
    with echo("--ping", "200ms") as server, nibtest.Peer(server) as peer:
        peer.upgrade()
        for _ in range(3):
            _, opcode, payload = peer.read_frame()
            equal(opcode, PING, "opcode")
            peer.send_frame(PONG, payload)
        _, opcode, _ = peer.read_frame()
        equal(opcode, PING, "opcode")
        equal(peer.read_close()[0], 1001, "code")


nibtest.run()
