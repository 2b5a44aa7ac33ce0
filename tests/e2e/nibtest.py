"""nibtest - what the end-to-end tests share.

A test is a script that registers cases and runs them:

    import nibtest

    @nibtest.case("an echo comes back")
    def echo():
        with nibtest.Server("nibd", "echo", "127.0.0.1:0") as server:
            with nibtest.Peer(server) as peer:
                peer.upgrade()
                peer.send_frame(nibtest.TEXT, b"hello")
                nibtest.equal(peer.read_frame(), (True, nibtest.TEXT, b"hello"))

    nibtest.run()

It speaks TAP on stdout. Everything that waits has a deadline and raises
TimeoutError; nothing here sleeps to let something happen. Only /usr/bin/python3
and its standard library are needed; a case or script that wants more asks by
nibtest.need(). Servers are stopped by their own pid and nothing else.

Programs are found through the environment: NIBD, NIB_BENCH and NIB name nibd,
nib-bench and nib; otherwise they are taken from NIB_BUILDDIR, which
"make check" sets, or from the working directory.
"""

import ctypes
import importlib
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from http.client import HTTPConnection, HTTPSConnection

SANITIZERS = os.environ.get("NIB_SANITIZERS", "no")

# Seconds that something may take which normally takes milliseconds. Long, as
# it only ever runs out when a test fails.
PATIENCE = 20.0 if SANITIZERS in ("no", "") else 60.0

# Seconds that one case may take.
CASE_DEADLINE = 120 if SANITIZERS in ("no", "") else 600

# Opcodes (RFC 6455, 11.8).
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA

# What a sanitizer's report looks like on stderr.
_REPORT = re.compile(
    r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:|"
    r"Assertion .* failed|stack smashing")


# --- cases and TAP ----------------------------------------------------------

class Skip(Exception):
    """Raised inside a case: it is reported as skipped, with the reason."""


_cases = []


def case(name):
    """Registers the decorated function, which takes no argument, as a case."""
    def register(function):
        _cases.append((name, function))
        return function
    return register


def need(module, package):
    """Returns an imported module. If it is missing, ends the script by
    skip_all(), with the name of the Debian package."""
    try:
        return importlib.import_module(module)
    except ImportError:
        skip_all("%s is not installed (Debian: %s)" % (module, package))


def skip_all(reason):
    """Ends the script, as something that it needs is missing: all of it is
    skipped, or has failed if NIB_CHECK_ALL is set."""
    if os.environ.get("NIB_CHECK_ALL"):
        print("1..1\nnot ok 1 - " + reason, flush=True)
        sys.exit(1)
    print("1..0 # SKIP " + reason, flush=True)
    sys.exit(0)


def note(text):
    """Prints a TAP comment."""
    for line in str(text).splitlines():
        print("# " + line, flush=True)


def equal(actual, expected, what="value"):
    """Fails the case unless both are equal, showing both."""
    if actual != expected:
        raise AssertionError("%s: expected %s, got %s"
                             % (what, _short(expected), _short(actual)))


def _short(value):
    text = repr(value)
    return text if len(text) < 400 else text[:400] + "... (%d)" % len(text)


def _alarm(_signal, _frame):
    raise TimeoutError("the case took longer than %d s" % CASE_DEADLINE)


def _run_case(number, name, function):
    signal.alarm(CASE_DEADLINE)
    try:
        function()
        line = "ok %d - %s" % (number, name)
    except Skip as skip:
        line = "ok %d - %s # SKIP %s" % (number, name, skip)
    except Exception:  # whatever it is, the other cases still run
        note(traceback.format_exc())
        line = "not ok %d - %s" % (number, name)
    finally:
        signal.alarm(0)
    print(line, flush=True)
    return not line.startswith("not")


def run():
    """Runs all registered cases, or those whose name contains a word of the
    command line; exits with 0 if all passed, else 1."""
    words = sys.argv[1:]
    chosen = [c for c in _cases
              if not words or any(word in c[0] for word in words)]
    signal.signal(signal.SIGALRM, _alarm)
    print("1..%d" % len(chosen), flush=True)
    results = [_run_case(number, name, function)
               for number, (name, function) in enumerate(chosen, 1)]
    sys.exit(0 if all(results) else 1)


def deadline(seconds=None):
    """A moment on the monotonic clock, `seconds` (default PATIENCE) away."""
    return time.monotonic() + (PATIENCE if seconds is None else seconds)


def until(condition, what, seconds=None):
    """Polls condition() until it is true and returns its value. For what
    nobody reports, such as a counter in /proc; fails after `seconds`."""
    end = deadline(seconds)
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError("not in time: " + what)
        time.sleep(0.005)


# --- programs ---------------------------------------------------------------

def program(name):
    """The path of one of our programs: "nibd", "nib-bench" or "nib"."""
    variable = name.upper().replace("-", "_")
    if os.environ.get(variable):
        return os.environ[variable]
    return os.path.join(os.environ.get("NIB_BUILDDIR", "."), name)


def command(name, *args, stdin=b"", seconds=None):
    """Runs a program to its end. Returns (status, stdout, stderr), the last
    two as text; fails if it takes longer than `seconds` (PATIENCE)."""
    done = subprocess.run([program(name), *args], input=stdin,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=PATIENCE if seconds is None else seconds,
                          check=False)
    return (done.returncode, done.stdout.decode("utf-8", "replace"),
            done.stderr.decode("utf-8", "replace"))


_libc = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def _die_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Server:
    """A running server program that prints "listening on http://HOST:PORT/",
    or https://.

    As a context manager it stops the program by SIGTERM and then insists on
    exit status 0 and on a stderr without a sanitizer's report.

    pid        its process
    url        as printed
    host, port where it listens; host without brackets
    tls        the ssl.SSLContext by which clients connect; None: plain
    """

    def __init__(self, name, *args, env=None, preexec=None, tls=None):
        """Starts program(name) with args and waits for its line.

        env      variables to add to the environment
        preexec  called in the child before exec, e.g. to set limits
        tls      as the attribute
        """
        self.tls = tls

        def prepare():
            _die_with_parent()
            if preexec:
                preexec()

        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [program(name), *args], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=self._errors, bufsize=0,
            env=dict(os.environ, **(env or {})), preexec_fn=prepare)
        self.pid = self._process.pid
        self._stopped_by_test = False
        try:
            line = self._read_line(deadline())
            match = re.fullmatch(
                r"listening on (https?://(\[[^\]]+\]|[^/:]+):(\d+)/\S*)\n", line)
            if not match:
                raise AssertionError("no listening line but %r; stderr: %s"
                                     % (line, self.errors()))
        except BaseException:
            self.kill()
            raise
        self.url = match.group(1)
        self.host = match.group(2).strip("[]")
        self.port = int(match.group(3))

    def _read_line(self, end):
        line = b""
        stdout = self._process.stdout.fileno()
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([stdout], [], [],
                                        max(0, end - time.monotonic()))
            if not ready:
                raise TimeoutError("no listening line in time, only %r" % line)
            byte = os.read(stdout, 1)
            if not byte:
                break
            line += byte
        return line.decode("utf-8", "replace")

    def ws(self, path="/"):
        """The WebSocket URL of a path."""
        return "ws" + re.match(r"http(s?://[^/]+)", self.url).group(1) + path

    def errors(self):
        """What the program has written to stderr so far."""
        size = os.fstat(self._errors.fileno()).st_size
        return os.pread(self._errors.fileno(), size, 0).decode("utf-8",
                                                               "replace")

    def output(self):
        """What it wrote to stdout after its line; only after its end."""
        return self._process.stdout.read().decode("utf-8", "replace")

    def running(self):
        """True until the program has ended."""
        return self._process.poll() is None

    def send_signal(self, number):
        """Sends a signal."""
        self._process.send_signal(number)

    def wait(self, seconds=None):
        """Waits for the end; returns the exit status, -N for signal N."""
        self._stopped_by_test = True
        try:
            return self._process.wait(PATIENCE if seconds is None else seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError("pid %d does not end" % self.pid) from None

    def stop(self, number=signal.SIGTERM, seconds=None):
        """Sends a signal and waits for the end; returns the exit status."""
        self.send_signal(number)
        return self.wait(seconds)

    def kill(self):
        """Ends it at once, whatever it does. Harmless if it has ended."""
        self._stopped_by_test = True
        if self.running():
            self._process.kill()
            self._process.wait()

    def threads(self):
        """How many threads the program has."""
        return len(os.listdir("/proc/%d/task" % self.pid))

    def descriptors(self):
        """How many descriptors it has open."""
        return len(os.listdir("/proc/%d/fd" % self.pid))

    def __enter__(self):
        return self

    def __exit__(self, kind, _value, _trace):
        try:
            if not self._stopped_by_test and kind is None:
                equal(self.stop(), 0, "exit status after SIGTERM")
        finally:
            self.kill()
            errors = self.errors()
            if errors and (kind or _REPORT.search(errors)):
                note("stderr of pid %d:\n%s" % (self.pid, errors))
            self._process.stdout.close()
            self._errors.close()
        if not kind and _REPORT.search(errors):
            raise AssertionError("a report on stderr, see above")


# --- plain HTTP and plain frames --------------------------------------------

def http(server, path="/", method="GET", headers=None, body=None):
    """One plain request. Returns (status, headers, body); the names of the
    headers are in lower case."""
    connection = http_connection(server)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return (response.status,
                {k.lower(): v for k, v in response.getheaders()},
                response.read())
    finally:
        connection.close()


def http_connection(server):
    """An HTTPConnection to a server, for several requests."""
    if server.tls:
        return HTTPSConnection(server.host, server.port, timeout=PATIENCE,
                               context=server.tls)
    return HTTPConnection(server.host, server.port, timeout=PATIENCE)


def frame(opcode, payload=b"", fin=True, mask=b"\x12\x34\x56\x78", rsv=0):
    """The bytes of a client's frame; mask=None leaves it unmasked."""
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    bit = 0 if mask is None else 0x80
    if len(payload) < 126:
        head += bytes([bit | len(payload)])
    elif len(payload) < 65536:
        head += struct.pack("!BH", bit | 126, len(payload))
    else:
        head += struct.pack("!BQ", bit | 127, len(payload))
    if mask is None:
        return head + payload
    key = int.from_bytes((mask * (len(payload) // 4 + 1))[:len(payload)], "big")
    data = int.from_bytes(payload, "big") ^ key
    return head + mask + data.to_bytes(len(payload), "big")


def close_payload(code, reason=""):
    """The payload of a Close frame."""
    return struct.pack("!H", code) + reason.encode()


class Peer:
    """A client made of a plain socket: it does what the test says and nothing
    by itself (no pong, no Close)."""

    def __init__(self, server, receive_buffer=None, plain=False, session=None):
        """Connects to a Server, by server.tls unless that is None.

        receive_buffer  SO_RCVBUF, set before
        plain           without TLS in any case
        session         of TLS, to be resumed
        """
        family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
        self.host = "%s:%d" % (server.host, server.port)
        self.sock = socket.socket(family)
        self.sock.settimeout(PATIENCE)
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF,
                                 receive_buffer)
        self._rest = b""
        try:
            self.sock.connect((server.host, server.port))
            if server.tls and not plain:
                # An end without close_notify is an error here.
                self.sock = server.tls.wrap_socket(
                    self.sock, server_hostname="localhost", session=session,
                    suppress_ragged_eofs=False)
        except BaseException:
            self.sock.close()
            raise

    def send(self, data):
        """Sends bytes as they are."""
        self.sock.sendall(data)

    def read(self, count):
        """Reads exactly `count` bytes; EOFError if the stream ends before."""
        while len(self._rest) < count:
            self._more()
        data, self._rest = self._rest[:count], self._rest[count:]
        return data

    def _more(self):
        data = self.sock.recv(262144)
        if not data:
            raise EOFError("end of stream after %r" % _short(self._rest))
        self._rest += data

    def read_head(self):
        """Reads a response's head. Returns (status, headers), the names in
        lower case, repeated ones joined by ", "."""
        while b"\r\n\r\n" not in self._rest:
            self._more()
        head, self._rest = self._rest.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        headers = {}
        for line in lines[1:]:
            name, value = line.split(":", 1)
            name, value = name.lower(), value.strip()
            headers[name] = (headers[name] + ", " + value
                             if name in headers else value)
        return int(lines[0].split()[1]), headers

    def request_upgrade(self, path="/", headers=()):
        """Sends an upgrade request; headers: further (name, value) pairs."""
        lines = ["GET %s HTTP/1.1" % path, "Host: " + self.host,
                 "Upgrade: websocket", "Connection: Upgrade",
                 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                 "Sec-WebSocket-Version: 13"]
        lines += ["%s: %s" % pair for pair in headers]
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    def upgrade(self, path="/", headers=()):
        """Upgrades and insists on 101 with the right accept key; returns the
        response's headers."""
        self.request_upgrade(path, headers)
        status, answer = self.read_head()
        equal(status, 101, "status of the upgrade")
        equal(answer.get("sec-websocket-accept"),
              "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "Sec-WebSocket-Accept")
        return answer

    def send_frame(self, opcode, payload=b"", **options):
        """Sends a frame; options as frame()."""
        self.send(frame(opcode, payload, **options))

    def read_frame(self):
        """Reads a frame. Returns (fin, opcode, payload). RSV bits and a mask,
        which no server may set here, fail."""
        first, second = self.read(2)
        equal(first & 0x70, 0, "RSV bits")
        equal(second & 0x80, 0, "mask bit of a server's frame")
        length = second & 0x7F
        if length == 126:
            length, = struct.unpack("!H", self.read(2))
        elif length == 127:
            length, = struct.unpack("!Q", self.read(8))
        return bool(first & 0x80), first & 0x0F, self.read(length)

    def read_message(self):
        """Reads a whole message, over its fragments; control frames between
        them fail. Returns (TEXT or BINARY, payload)."""
        fin, kind, payload = self.read_frame()
        while not fin:
            fin, opcode, more = self.read_frame()
            equal(opcode, CONTINUATION, "opcode of a fragment")
            payload += more
        return kind, payload

    def read_close(self):
        """Reads a Close frame; returns (code, reason), code None if empty."""
        _, opcode, payload = self.read_frame()
        equal(opcode, CLOSE, "opcode")
        if not payload:
            return None, ""
        return struct.unpack("!H", payload[:2])[0], payload[2:].decode()

    def read_eof(self):
        """Insists that nothing but the end of the stream follows."""
        equal(self._rest, b"", "bytes before the end")
        equal(self.sock.recv(4096), b"", "bytes before the end")

    def close(self, code=1000):
        """The closing handshake, begun by us, up to the end of the stream."""
        self.send_frame(CLOSE, close_payload(code))
        equal(self.read_close(), (code, ""), "answer to our Close")
        self.read_eof()
        self.sock.close()

    def reset(self):
        """Ends the connection by RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                             struct.pack("ii", 1, 0))
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.sock.close()
