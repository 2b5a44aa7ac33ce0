"""test_console - nib, the console client, against a server that is a script.

The server here is a plain socket that says what the case wants, so that the
client is judged by something that shares no code with it.
"""

import base64
import hashlib
import socket
import struct
import threading

import nibtest
from nibtest import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Connection:
    """The server's end of one connection."""

    def __init__(self, sock):
        sock.settimeout(nibtest.PATIENCE)
        self.sock = sock
        self._rest = b""

    def read(self, count):
        while len(self._rest) < count:
            data = self.sock.recv(65536)
            if not data:
                raise EOFError("the client went away")
            self._rest += data
        data, self._rest = self._rest[:count], self._rest[count:]
        return data

    def read_head(self):
        """The request's lines."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.read(1)
        return head.decode("ascii").split("\r\n")[:-2]

    def header(self, lines, name):
        values = [line.split(": ", 1)[1] for line in lines[1:]
                  if line.lower().startswith(name.lower() + ": ")]
        nibtest.equal(len(values), 1, "lines of " + name)
        return values[0]

    def accept(self, extra="", behind=b""):
        """Answers 101; `behind` goes out in the same segment."""
        lines = self.read_head()
        key = self.header(lines, "Sec-WebSocket-Key").encode()
        accept = base64.b64encode(hashlib.sha1(key + GUID).digest())
        self.sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\n"
                          b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
                          b"Sec-WebSocket-Accept: " + accept + b"\r\n" +
                          extra.encode() + b"\r\n" + behind)
        return lines

    def read_frame(self):
        """(opcode, payload, key) of a frame, which must be a whole message
        and masked."""
        first, second = self.read(2)
        nibtest.equal(first & 0xF0, 0x80, "FIN and RSV")
        nibtest.equal(second & 0x80, 0x80, "mask bit")
        length = second & 0x7F
        if length == 126:
            length, = struct.unpack("!H", self.read(2))
        elif length == 127:
            length, = struct.unpack("!Q", self.read(8))
        key = self.read(4)
        data = self.read(length)
        pad = (key * (length // 4 + 1))[:length]
        data = (int.from_bytes(data, "big") ^ int.from_bytes(pad, "big")
                ).to_bytes(length, "big")
        return first & 0x0F, data, key

    def expect(self, opcode, payload):
        nibtest.equal(self.read_frame()[:2], (opcode, payload), "frame")

    def send(self, opcode, payload=b"", fin=True):
        self.sock.sendall(nibtest.frame(opcode, payload, fin=fin, mask=None))


def run(script, *args, stdin=b""):
    """Runs nib against script(connection); returns as nibtest.command()."""
    failures = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(nibtest.PATIENCE)

        def serve():
            try:
                sock, _ = listener.accept()
                with sock:
                    script(Connection(sock))
            except BaseException as e:  # told by the case
                failures.append(e)

        thread = threading.Thread(target=serve)
        thread.start()
        url = "ws://127.0.0.1:%d/path?query" % listener.getsockname()[1]
        try:
            result = nibtest.command("nib", *args, url, stdin=stdin)
        finally:
            thread.join()
    if failures:
        raise failures[0]
    return result


def close_after(c, code=1000):
    c.expect(CLOSE, nibtest.close_payload(code))
    c.send(CLOSE, nibtest.close_payload(code))


@nibtest.case("lines become masked text messages, the end of stdin a Close")
def lines_in():
    keys = []

    def script(c):
        c.accept()
        for text in (b"one", b"", "zwei \u00e4".encode(), b"no end"):
            opcode, payload, key = c.read_frame()
            nibtest.equal((opcode, payload), (TEXT, text))
            keys.append(key)
        close_after(c)

    nibtest.equal(run(script, stdin="one\n\nzwei \u00e4\nno end".encode()),
                  (0, "", ""))
    nibtest.equal(len(set(keys)), 4, "different masking keys")


@nibtest.case("--binary sends binary messages of every length")
def binary():
    sizes = [1, 125, 126, 65535, 65536, 300000]

    def script(c):
        c.accept()
        for size in sizes:
            c.expect(BINARY, b"b" * size)
        close_after(c)

    text = b"".join(b"b" * size + b"\n" for size in sizes)
    nibtest.equal(run(script, "--binary", stdin=text)[0], 0)


@nibtest.case("messages become lines, also fragmented and right behind the 101")
def lines_out():
    def script(c):
        c.accept(behind=nibtest.frame(TEXT, b"early", mask=None))
        c.send(TEXT, b"fra", fin=False)
        c.send(PING, b"between")
        c.send(CONTINUATION, b"gment")
        c.send(BINARY, b"x" * 100000)
        c.expect(PONG, b"between")
        close_after(c)

    nibtest.equal(run(script, "-n", "3"),
                  (0, "early\nfragment\n" + "x" * 100000 + "\n", ""))


@nibtest.case("-n closes after N messages and prints no more")
def count():
    def script(c):
        c.accept()
        for text in (b"1", b"2", b"3"):
            c.send(TEXT, text)
        close_after(c)

    nibtest.equal(run(script, "-n", "2"), (0, "1\n2\n", ""))


@nibtest.case("a Close by the server is returned; its code is told")
def closed():
    def script(c):
        c.accept()
        c.send(CLOSE, nibtest.close_payload(4001, "so\nlong"))
        c.expect(CLOSE, nibtest.close_payload(4001))

    nibtest.equal(run(script, "-n", "1"),
                  (0, "", "nib: closed by the server: 4001 so?long\n"))


@nibtest.case("an empty Close is answered by an empty one")
def empty_close():
    def script(c):
        c.accept()
        c.send(CLOSE)
        c.expect(CLOSE, b"")

    nibtest.equal(run(script, "-n", "1"), (0, "", ""))


@nibtest.case("an end without a Close is status 1")
def abnormal():
    status, out, err = run(lambda c: c.accept(), "-n", "1")
    nibtest.equal((status, out), (1, ""))
    nibtest.equal(err, "nib: connection lost: the server ended the connection "
                       "without a Close\n")


@nibtest.case("a refused upgrade is status 3 and names the HTTP status")
def refused():
    def script(c):
        c.read_head()
        c.sock.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    nibtest.equal(run(script), (3, "", "nib: refused: 403 Forbidden\n"))


@nibtest.case("a 101 with a wrong accept key is no connection: status 1")
def wrong_key():
    def script(c):
        c.read_head()
        c.sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\n"
                       b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
                       b"Sec-WebSocket-Accept: AAAA\r\n\r\n")

    status, _, err = run(script)
    nibtest.equal(status, 1)
    nibtest.equal("Sec-WebSocket-Accept" in err, True, err)


@nibtest.case("the server's faults: masked, reserved bits, not UTF-8")
def protocol_errors():
    bad = [(nibtest.frame(TEXT, b"x"), 1002),
           (nibtest.frame(TEXT, b"x", mask=None, rsv=4), 1002),
           (nibtest.frame(TEXT, b"\xff", mask=None), 1007),
           (nibtest.frame(CONTINUATION, b"x", mask=None), 1002)]
    for data, code in bad:
        def script(c):
            c.accept()
            c.sock.sendall(data)
            opcode, payload, _ = c.read_frame()
            nibtest.equal((opcode, payload[:2]),
                          (CLOSE, struct.pack("!H", code)))

        nibtest.equal(run(script, "-n", "1")[:2], (1, ""))


@nibtest.case("headers, subprotocols, path and query are sent as given")
def request():
    def script(c):
        lines = c.accept("Sec-WebSocket-Protocol: log\r\n")
        nibtest.equal(lines[0], "GET /path?query HTTP/1.1")
        nibtest.equal(c.header(lines, "Host"), "example.org")
        nibtest.equal(c.header(lines, "X-One"), "1: 2")
        nibtest.equal(c.header(lines, "Sec-WebSocket-Protocol"), "chat, log")
        nibtest.equal(c.header(lines, "Sec-WebSocket-Version"), "13")
        close_after(c)

    nibtest.equal(run(script, "--header", "X-One:1: 2", "-H",
                      "Host: example.org", "--subprotocol", "chat, log"),
                  (0, "", ""))


@nibtest.case("a subprotocol that was not offered is no connection")
def wrong_subprotocol():
    def script(c):
        c.accept("Sec-WebSocket-Protocol: other\r\n")

    status, _, err = run(script, "--subprotocol", "chat")
    nibtest.equal((status, "subprotocol" in err), (1, True), err)


@nibtest.case("--ping pings, and gives up without an answer")
def pings():
    def answering(c):
        c.accept()
        for _ in range(2):
            opcode, payload, _ = c.read_frame()
            nibtest.equal(opcode, PING)
            c.send(PONG, payload)
        c.send(TEXT, b"done")
        while c.read_frame()[0] != CLOSE:
            pass
        c.send(CLOSE, nibtest.close_payload(1000))

    nibtest.equal(run(answering, "-n", "1", "--ping", "1s"),
                  (0, "done\n", ""))

    def silent(c):
        c.accept()
        nibtest.equal(c.read_frame()[0], PING)
        try:
            c.read(1)
        except EOFError:
            return
        raise AssertionError("the client went on")

    nibtest.equal(run(silent, "-n", "1", "--ping", "100ms"),
                  (1, "", "nib: the server did not answer a ping\n"))


@nibtest.case("much both ways at once does not lock up")
def both_ways():
    line = b"l" * 1000
    total = 20000

    def script(c):
        c.accept()
        for _ in range(total):  # an echo that never reads ahead
            opcode, payload, _ = c.read_frame()
            c.send(opcode, payload)
        close_after(c)

    status, out, err = run(script, "-n", str(total),
                           stdin=(line + b"\n") * total)
    nibtest.equal((status, err), (0, ""))
    nibtest.equal(out == (line.decode() + "\n") * total, True, "same lines")


@nibtest.case("usage errors are status 2 and say what was expected")
def usage():
    for args, text in [
            ([], "expected URL"),
            (["ws://h/", "more"], "'more'"),
            (["http://h/"], "expected ws://HOST[:PORT][/PATH]"),
            (["ws://h/", "--no-such"], "--no-such"),
            (["ws://h/", "-n"], "-n: a value is missing"),
            (["ws://h/", "-n", "0"], "out of range"),
            (["ws://h/", "--ping", "30"], "'30' is not a duration"),
            (["ws://h/", "--header", "X"], "'X' is not 'NAME: VALUE'"),
            (["ws://h/", "--header", "Upgrade: x"], "Upgrade: x"),
            (["ws://h/", "--header", "X: a\r\nY: b"], "cannot be sent"),
            (["ws://h/", "--subprotocol", "a b"], "not a list"),
            (["ws://h/", "--text", "--binary"], "one of them")]:
        status, out, err = nibtest.command("nib", *args)
        nibtest.equal((status, out), (2, ""), "status and stdout of %r" % args)
        nibtest.equal(text in err, True, "%r in %r" % (text, err))


@nibtest.case("--help and --version print on stdout")
def help_text():
    status, out, err = nibtest.command("nib", "--help")
    nibtest.equal((status, err), (0, ""))
    for option in ("--text", "--binary", "--header", "--subprotocol", "--ping",
                   "-n", "--timeout", "--version", "Exit status"):
        nibtest.equal(option in out, True, option)
    status, out, _ = nibtest.command("nib", "ws://h/", "--version")
    nibtest.equal((status, out.startswith("nib (nib) ")), (0, True))


nibtest.run()
