"""test_tls - TLS in the programs: nibd, nib-bench and nib over wss.

Certificates, versions and suites, client certificates, both kinds on one
port, certificates that change, sessions that outlive a restart.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading

import nibtest
import nibtls
from nibtest import BINARY, CLOSE, TEXT, equal

websockets = nibtest.need("websockets", "python3-websockets")
nibtls.need()

LOCAL = "127.0.0.1:0"
CA = nibtls.Authority("nib test CA")
OTHER_CA = nibtls.Authority("another CA")
PAIR = CA.issue("localhost")
TLS12 = ssl.TLSVersion.TLSv1_2
VERSIONS = [TLS12] + ([ssl.TLSVersion.TLSv1_3] if nibtls.has_tls13() else [])


def hub(*options, pair=PAIR, tls=None, **more):
    return nibtest.Server("nibd", "hub", *pair.options(), *options, LOCAL,
                          tls=tls or CA.context(), **more)


def echo(*options, pair=PAIR, tls=None, **more):
    return nibtest.Server("nibd", "echo", *pair.options(), *options, LOCAL,
                          tls=tls or CA.context(), **more)


def serve(*options, pair=PAIR, tls=None):
    return nibtest.Server("nib-bench", "serve", *pair.options(), *options,
                          LOCAL, tls=tls or CA.context())


def bench(scenario, *args):
    """Runs a scenario with --json and the CA. Returns its object."""
    status, out, err = nibtest.command("nib-bench", scenario, "--json", "--ca",
                                       CA.cert, *args,
                                       seconds=4 * nibtest.PATIENCE)
    equal((status, err), (0, ""), "status and stderr")
    return json.loads(out)


def nib(server, *args, ca=CA, path="/", stdin=b"hello\n"):
    return nibtest.command("nib", "-n", "1", "--ca", ca.cert, *args,
                           server.ws(path), stdin=stdin)


def contains(text, *parts):
    for part in parts:
        if part not in text:
            raise AssertionError("%r is not in %r" % (part, text))


def round_trip(peer, data=b"hello"):
    peer.send_frame(BINARY, data)
    equal(peer.read_message(), (BINARY, data))


def one_echo(server, **options):
    """A whole connection; returns whether it resumed a session, and its own
    session."""
    with nibtest.Peer(server, **options) as peer:
        peer.upgrade()
        round_trip(peer)
        resumed, session = peer.sock.session_reused, peer.sock.session
        peer.close()
    return resumed, session


def certificate_of(server):
    """The certificate that a new connection gets."""
    with nibtest.Peer(server) as peer:
        return peer.sock.getpeercert(binary_form=True)


def refused(connect):
    """The handshake, or the first read after it, fails."""
    try:
        with connect() as peer:
            peer.upgrade()
    except (OSError, EOFError):
        return
    raise AssertionError("the connection was taken")


# --- the command line -------------------------------------------------------

@nibtest.case("usage errors name the option and what was expected, status 2")
def usage():
    cert = "--cert", PAIR.cert, "--key", PAIR.key
    suite = "ECDHE-ECDSA-AES128-GCM-SHA256"
    for words, text in (
            (("--key", "k"), "--key: 'k': expected one after a --cert"),
            (("--key", "k", *cert), "--key: 'k': expected one after"),
            ((*cert, "--key", "again"), "--key: 'again': expected one after"),
            (("--key-password", "x"), "--key-password: expected one after"),
            (("--tls", "on"), "--tls: expected a --cert"),
            (("--tls", "auto"), "--tls: expected a --cert"),
            (("--tls", "yes"), "--tls: 'yes': expected on|auto|off"),
            (("--client-ca", "f"), "--client-ca: expected a --cert"),
            (("--ticket-keys", "f"), "--ticket-keys: expected a --cert"),
            (("--tls-ciphers", suite), "--tls-ciphers: expected a --cert"),
            (("--tls-version", "1.2"), "--tls-version: expected a --cert"),
            (("--handshake-threads", "2"), "--handshake-threads: expected a"),
            ((*cert, "--verify-client", "optional"), "expected a --client-ca"),
            ((*cert, "--verify-client", "maybe"), "none|optional|required"),
            ((*cert, "--client-ca", CA.cert, "--tls", "auto"), "--tls auto"),
            ((*cert, "--tls-version", "1.1"), "expected 1.2|1.3"),
            ((*cert, "--tls-ciphers", "AES128-SHA"), "\"AES128-SHA\""),
            ((*cert, "--tls-ciphers", suite + ":x"), "\"x\""),
            ((*cert, "--handshake-threads", "0"), "1 to 256")):
        for program in (("nibd", "hub"), ("nib-bench", "serve")):
            status, out, err = nibtest.command(*program, *words, LOCAL)
            equal((status, out), (2, ""), "status and stdout of %r" % (words,))
            contains(err, text)
    status, _, err = nibtest.command("nibd", "hub", "--tls-watch", "1", LOCAL)
    equal(status, 2, "status")
    contains(err, "--tls-watch: expected a --cert")
    status, _, err = nibtest.command("nib-bench", "cycle", "--resume",
                                     "--no-resume", "wss://127.0.0.1:1/")
    equal(status, 2, "status")
    contains(err, "--resume and --no-resume")


@nibtest.case("files that are missing, broken, expired: the file's name, "
              "status 1")
def bad_files():
    other = CA.issue("other")
    expired = CA.issue("old", days=-1)
    locked = CA.issue("locked", password="swordfish")
    junk = nibtls.write("junk.pem", "-----BEGIN CERTIFICATE-----\nxx\n")
    short = nibtls.write("short.keys", b"x" * 79)
    empty = nibtls.write("empty", "\n")
    for words, name in (
            (("--cert", "/nowhere.pem"), "/nowhere.pem"),
            (("--cert", junk, "--key", PAIR.key), junk),
            (("--cert", PAIR.cert), PAIR.cert),
            (("--cert", PAIR.cert, "--key", "/nowhere.key"), "/nowhere.key"),
            (("--cert", PAIR.cert, "--key", other.key), other.key),
            (("--cert", PAIR.cert, "--key", junk), junk),
            (expired.options(), expired.cert),
            (locked.options(), locked.key),
            ((*locked.options(), "--key-password", "wrong"), locked.key),
            ((*locked.options(), "--key-password", "@/nowhere"), "/nowhere"),
            ((*locked.options(), "--key-password", "@" + empty), empty),
            ((*PAIR.options(), "--client-ca", "/nowhere.ca"), "/nowhere.ca"),
            ((*PAIR.options(), "--client-ca", junk), junk),
            ((*PAIR.options(), "--ticket-keys", "/nowhere.tk"), "/nowhere.tk"),
            ((*PAIR.options(), "--ticket-keys", short), short)):
        for program in (("nibd", "echo"), ("nib-bench", "serve")):
            status, out, err = nibtest.command(*program, *words, LOCAL)
            equal((status, out), (1, ""), "status and stdout of %r" % (words,))
            contains(err, name)
            equal(err.count("\n"), 1, "lines in " + repr(err))


@nibtest.case("a key with a password, on the command line and in a file; one "
              "file for both; RSA")
def kinds_of_keys():
    locked = CA.issue("locked", password="swordfish")
    secret = nibtls.write("secret", "swordfish\nand more\n")
    for password in ("swordfish", "@" + secret):
        with echo("--key-password", password, pair=locked) as server:
            one_echo(server)
    both = nibtls.write("both.pem",
                        nibtls.read(PAIR.cert) + nibtls.read(PAIR.key))
    with nibtest.Server("nibd", "echo", "--cert", both, LOCAL,
                        tls=CA.context()) as server:
        one_echo(server)
    with echo(pair=CA.issue("rsa", kind="rsa")) as server:
        one_echo(server)


# --- traffic ----------------------------------------------------------------

@nibtest.case("a hub over wss: browsers' page, websockets, nib")
def hub_over_wss():
    async def talk(server):
        async with websockets.connect(server.ws(), ssl=server.tls,
                                      server_hostname="localhost") as one, \
                websockets.connect(server.ws(), ssl=server.tls,
                                   server_hostname="localhost") as two:
            await one.send("good morning")
            for member in (one, two):
                equal(await member.recv(), "good morning")
            loop = asyncio.get_running_loop()
            answer = await loop.run_in_executor(None, nib, server)
            equal(answer, (0, "hello\n", ""))
            for member in (one, two):
                equal(await member.recv(), "hello")

    with hub() as server:
        equal(server.url, "https://127.0.0.1:%d/" % server.port)
        equal(nibtest.http(server)[0], 200)
        asyncio.run(asyncio.wait_for(talk(server), nibtest.PATIENCE))


@nibtest.case("every length of a message, each version, and an orderly end")
def lengths():
    for version in VERSIONS:
        with echo(tls=CA.context(highest=version)) as server, \
                nibtest.Peer(server) as peer:
            equal(peer.sock.version().replace(".", "_"), version.name)
            peer.upgrade()
            for length in (0, 1, 125, 126, 16383, 16384, 16385, 65535, 65536,
                           1 << 20):
                round_trip(peer, bytes(i % 251 for i in range(length)))
            # Many frames in a record, and a frame over many records.
            peer.send(b"".join(nibtest.frame(TEXT, b"%d" % i)
                               for i in range(1000)))
            for i in range(1000):
                equal(peer.read_message(), (TEXT, b"%d" % i))
            peer.close()  # with close_notify, or Peer complains


@nibtest.case("SIGTERM: Close 1001 and close_notify, status 0")
def stop():
    with hub() as server, nibtest.Peer(server) as peer:
        peer.upgrade()
        server.send_signal(signal.SIGTERM)
        equal(peer.read_close()[0], 1001)
        peer.send_frame(CLOSE, nibtest.close_payload(1001))
        peer.read_eof()
        equal(server.wait(), 0, "status")


@nibtest.case("nib-bench over wss: stream, echo, broadcast, idle")
def scenarios():
    with serve("--stats") as server:
        result = bench("stream", "-c", "3", "-n", "2000", "-s", "1k",
                       "--verify", server.ws("/seq"))
        equal(result["median"]["messages"], 6000)
        bench("stream", "-n", "20000", server.ws("/bench"))
        for options in ((), ("-c", "3", "-i", "20", "-s", "100k")):
            for path in ("/echo", "/echo-blocking"):
                bench("echo", "-t", "100ms", *options, server.ws(path))
        result = bench("broadcast", "-c", "10", "--senders", "2",
                       "--processes", "2", "-t", "100ms", server.ws("/all"))
        equal(result["median"]["tls_full"], 12)
        equal(result["median"]["deliveries"],
              12 * result["median"]["messages"])
        result = bench("idle", "-c", "50", "--settle", "0", "--hold", "50ms",
                       server.ws("/echo"))
        equal(result["median"]["connections"], 50)
        equal(server.stop(), 0)
        last = json.loads(server.errors().splitlines()[-1])
        equal((last["tls_failed"], last["tls"], last["tls_handshakes"]),
              (0, 0, 0), "tls_failed, tls and tls_handshakes")


@nibtest.case("nib-bench cycle over wss: whole handshakes and resumed ones")
def cycle():
    with serve("--stats") as server:
        for path in ("/bench", "/hello"):
            for version in ("1.2", "1.3")[:len(VERSIONS)]:
                full = bench("cycle", "-n", "20", "--no-resume", "--tls-max",
                             version, server.ws(path))
                equal(full["tls_version"], "TLSv" + version)
                equal(full["tls_cipher"][:4], "TLS_")
                equal((full["median"]["tls_full"],
                       full["median"]["tls_resumed"]), (20, 0), "full")
                again = bench("cycle", "-n", "20", "--tls-max", version,
                              server.ws(path))
                equal((again["median"]["tls_full"],
                       again["median"]["tls_resumed"]), (1, 19), "resumed")
        many = bench("cycle", "-n", "200", "-p", "8", "--silent", "10",
                     server.ws("/bench"))["median"]
        equal(many["tls_full"] + many["tls_resumed"], 200)
        equal(server.stop(), 0)
        last = json.loads(server.errors().splitlines()[-1])
        runs = 2 * len(VERSIONS)
        equal(last["tls_full"] + last["tls_resumed"], 40 * runs + 200)
        equal(last["tls_full"], 21 * runs + many["tls_full"])


@nibtest.case("keys of --json about TLS are null without it")
def keys_without_tls():
    with nibtest.Server("nib-bench", "serve", LOCAL) as server:
        result = bench("cycle", "-n", "2", server.ws("/hello"))
    equal((result["tls_version"], result["tls_cipher"],
           result["median"]["tls_full"], result["median"]["tls_resumed"]),
          (None, None, None, None))


class TlsEcho(threading.Thread):
    """A server that returns all bytes, and closes at their end."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(PAIR.cert, PAIR.key)
        self.address = "tls://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.clean = 0  # connections that ended by close_notify

    def run(self):
        while True:
            sock, _ = self.listener.accept()
            try:
                self.serve(sock)
            except OSError:
                pass

    def serve(self, sock):
        with self.context.wrap_socket(sock, server_side=True,
                                      suppress_ragged_eofs=False) as tls:
            data = tls.recv(65536)
            while data:
                tls.sendall(data)
                data = tls.recv(65536)
            self.clean += 1
            tls.unwrap()


@nibtest.case("nib-bench --raw tls://: cycle and echo without WebSocket")
def raw():
    echoing = TlsEcho()
    echoing.start()
    result = bench("cycle", "-n", "10", "--raw", echoing.address)["median"]
    equal((result["tls_full"] + result["tls_resumed"], echoing.clean),
          (10, 10), "cycles, and those that ended by close_notify")
    result = bench("echo", "-t", "50ms", "--raw", echoing.address)
    equal(result["median"]["tls_full"], 1)


# --- both kinds on one port -------------------------------------------------

@nibtest.case("--tls auto: with and without TLS, however late the first byte")
def auto():
    with echo("--tls", "auto", tls=CA.context()) as server:
        equal(server.url[:6], "https:")
        with nibtest.Peer(server, plain=True) as late_plain, \
                nibtest.Peer(server, plain=True) as late_tls:
            for _ in range(5):
                one_echo(server)
                with nibtest.Peer(server, plain=True) as peer:
                    peer.upgrade()
                    round_trip(peer)
                    peer.close()
            late_plain.send(b"G")  # and the rest when others have been served
            one_echo(server)
            late_plain.send(b"ET / HTTP/1.1\r\nHost: x\r\n\r\n")
            equal(late_plain.read_head()[0], 426)
            hello, records = client_hello()
            late_tls.send(hello[:1])
            one_echo(server)
            for i in range(1, len(hello)):
                late_tls.send(hello[i:i + 1])
            shake_hands(late_tls, records)
        status, out, _ = nib(server)
        equal((status, out), (0, "hello\n"), "nib")
        status, out, _ = nibtest.command(
            "nib", "-n", "1", server.ws().replace("wss", "ws"),
            stdin=b"hello\n")
        equal((status, out), (0, "hello\n"), "nib, plain")


def client_hello():
    """The bytes of a ClientHello, and the (SSLObject, incoming, outgoing)."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = CA.context().wrap_bio(incoming, outgoing,
                                server_hostname="localhost")
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read(), (tls, incoming, outgoing)


def shake_hands(peer, records):
    """Goes on with a handshake whose first flight has been sent."""
    tls, incoming, outgoing = records
    while True:
        try:
            tls.do_handshake()
            peer.send(outgoing.read())
            return
        except ssl.SSLWantReadError:
            peer.send(outgoing.read())
            incoming.write(peer.sock.recv(65536))


@nibtest.case("plain HTTP to a TLS port: closed without a byte, one log line")
def plain_to_tls():
    with echo("-v") as server:
        with nibtest.Peer(server, plain=True) as peer:
            peer.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            try:
                peer.read_eof()
            except ConnectionResetError:
                pass
        nibtest.until(lambda: "handshake failed" in server.errors(), "a line")
        equal(server.errors().count("\n"), 1, "lines of the log")
        one_echo(server)


@nibtest.case("garbage, and handshakes that break off, harm nobody else")
def garbage():
    hello, _ = client_hello()
    with echo() as server:
        for data in (b"\x16", b"\x16\x03\x01\xff\xff" + b"x" * 70000,
                     b"\x16\x03\x01\x00\x05hello", os.urandom(3000),
                     hello[:100], hello, hello + hello):
            with nibtest.Peer(server, plain=True) as peer:
                try:
                    peer.send(data)
                    peer.sock.shutdown(socket.SHUT_WR)
                    while peer.sock.recv(65536):
                        pass
                except OSError:
                    pass
            one_echo(server)


# --- who trusts whom --------------------------------------------------------

@nibtest.case("nib and nib-bench refuse a wrong name and a wrong CA, unless "
              "--insecure")
def trust():
    elsewhere = CA.issue("elsewhere", names="DNS:elsewhere")
    for pair, ca in ((elsewhere, CA), (PAIR, OTHER_CA)):
        with echo(pair=pair) as server:
            status, out, err = nib(server, ca=ca)
            equal((status, out), (1, ""), "status and stdout of nib")
            contains(err, "nib: no connection: TLS: ")
            status, out, err = nibtest.command(
                "nib-bench", "echo", "-t", "10ms", "--ca", ca.cert,
                server.ws())
            equal((status, out), (1, ""), "status and stdout of nib-bench")
            contains(err, "TLS: ")
            status, out, _ = nibtest.command("nib", "-n", "1", server.ws(),
                                             stdin=b"hello\n")
            equal((status, out), (1, ""), "with the system's CAs")
            status, out, err = nib(server, "--insecure", ca=ca)
            equal((status, out, err), (0, "hello\n", ""), "--insecure")
            bench("echo", "-t", "10ms", "--insecure", server.ws())
    with echo() as server:
        status, out, _ = nibtest.command(
            "nib", "-n", "1", "--ca", CA.cert,
            "wss://localhost:%d/" % server.port, stdin=b"hello\n")
        equal((status, out), (0, "hello\n"), "by name")
    status, out, err = nibtest.command("nib", "--ca", "/nowhere.pem",
                                       "wss://127.0.0.1:1/")
    equal((status, out), (1, ""), "a CA's file that is not there")
    contains(err, "/nowhere.pem")


@nibtest.case("client certificates: none, good and bad ones, also resumed")
def client_certificates():
    good, bad = CA.issue("alice"), OTHER_CA.issue("mallory")
    old = CA.issue("bob", days=-1)
    for verify, takes_none in (("required", False), ("optional", True)):
        for version in VERSIONS:
            with echo("--client-ca", CA.cert, "--verify-client",
                      verify) as server:
                server.tls = CA.context(good, version)
                _, session = one_echo(server)
                if version == TLS12:  # Python has no tickets of 1.3 yet then
                    equal(one_echo(server, session=session)[0], True)
                for client in (bad, old):
                    server.tls = CA.context(client, version)
                    refused(lambda s=server: nibtest.Peer(s))
                server.tls = CA.context(None, version)
                if takes_none:
                    one_echo(server)
                else:
                    refused(lambda s=server: nibtest.Peer(s))
    with echo("--client-ca", CA.cert, "--verify-client", "none") as server:
        one_echo(server)
    with echo("--client-ca", CA.cert) as server:
        status, out, err = nib(server)
        equal((status, out), (1, ""), "nib, which has none")
        contains(err, "nib: ")


@nibtest.case("several certificates: the client's name chooses, else the first")
def server_names():
    first = CA.issue("first", names="DNS:first.example,DNS:localhost")
    second = CA.issue("second", names="DNS:second.example,DNS:*.wild.example")
    with echo(*second.options(), pair=first) as server:
        for name, expected in (("first.example", first),
                               ("second.example", second),
                               ("a.wild.example", second),
                               ("unknown.example", first), (None, first)):
            context = CA.context()
            context.check_hostname = False
            with socket.create_connection((server.host, server.port)) as sock:
                sock.settimeout(nibtest.PATIENCE)
                with context.wrap_socket(sock, server_hostname=name) as tls:
                    equal(tls.getpeercert(binary_form=True), expected.der(),
                          "certificate for %s" % name)


# --- certificates that change -----------------------------------------------

class Files:
    """The files of a server, to be replaced while it runs."""

    def __init__(self, pair):
        self.pair = nibtls.Pair(nibtls.path("live.pem"),
                                nibtls.path("live.key"))
        self.put(pair)

    def put(self, pair):
        nibtls.write("live.key", nibtls.read(pair.key))
        nibtls.write("live.pem", nibtls.read(pair.cert))


def reload(server, text):
    """SIGHUP, and the line that says what came of it."""
    before = len(server.errors())
    server.send_signal(signal.SIGHUP)
    nibtest.until(lambda: server.errors()[before:].endswith("\n"),
                  "a line about the reload")
    line = server.errors()[before:]
    equal(line.count("\n"), 1, "lines about the reload")
    contains(line, *text)


@nibtest.case("SIGHUP: new connections get the new certificate, old ones stay")
def sighup():
    new, newest = CA.issue("new"), CA.issue("newest", kind="rsa")
    live = Files(PAIR)
    with hub(pair=live.pair) as server, nibtest.Peer(server) as old:
        equal(certificate_of(server), PAIR.der())
        old.upgrade()
        for pair in (new, newest):
            live.put(pair)
            equal(certificate_of(server) == pair.der(), False, "before SIGHUP")
            reload(server, ["nibd: read the certificates again"])
            equal(certificate_of(server), pair.der(), "after SIGHUP")
            round_trip(old)
        old.close()


@nibtest.case("SIGHUP with a bad file: it is named, and the old one goes on")
def sighup_bad():
    live = Files(PAIR)
    expired = CA.issue("old", days=-1)
    with hub(pair=live.pair) as server, nibtest.Peer(server) as old:
        old.upgrade()
        for spoil, name in (
                (lambda: nibtls.write("live.pem", "nothing"), live.pair.cert),
                (lambda: os.unlink(live.pair.cert), live.pair.cert),
                (lambda: nibtls.write("live.key", "nothing"), live.pair.key),
                (lambda: nibtls.write("live.key",
                                      nibtls.read(OTHER_CA.key)),
                 live.pair.key),
                (lambda: live.put(expired), live.pair.cert)):
            spoil()
            reload(server, ["nibd: the certificates stay as they were", name])
            equal(certificate_of(server), PAIR.der(), "certificate")
            one_echo(server)
            round_trip(old)
            live.put(PAIR)
        reload(server, ["read the certificates again"])


@nibtest.case("SIGHUP again and again while connections come")
def sighup_storm():
    live = Files(PAIR)
    others = [CA.issue("a"), CA.issue("b"), PAIR]
    with echo(pair=live.pair) as server:
        for i in range(30):
            live.put(others[i % len(others)])
            server.send_signal(signal.SIGHUP)
            one_echo(server)
        # One that read between the two writes has kept what there was.
        server.send_signal(signal.SIGHUP)
        nibtest.until(lambda: certificate_of(server) == PAIR.der(),
                      "the last certificate")


@nibtest.case("--tls-watch: a file that changed is read again by itself")
def watch():
    live = Files(PAIR)
    new = CA.issue("new")
    with echo("--tls-watch", "20ms", pair=live.pair) as server:
        equal(certificate_of(server), PAIR.der())
        live.put(new)
        nibtest.until(lambda: certificate_of(server) == new.der(),
                      "the new certificate")
        nibtls.write("live.pem", "nothing")
        nibtest.until(lambda: "stay as they were" in server.errors(),
                      "a line about the bad one")
        equal(certificate_of(server), new.der())
        live.put(PAIR)
        nibtest.until(lambda: certificate_of(server) == PAIR.der(),
                      "the first certificate")


# --- sessions ---------------------------------------------------------------

@nibtest.case("a session is resumed after a restart by --ticket-keys, and "
              "never without")
def restart():
    keys = nibtls.write("ticket.keys", os.urandom(80))
    context = CA.context(highest=TLS12)
    for options, outlives in (((), False), (("--ticket-keys", keys), True)):
        with echo(*options, tls=context) as server:
            _, session = one_echo(server)
            equal(one_echo(server, session=session)[0], True, "same server")
        with echo(*options, tls=context) as server:
            equal(one_echo(server, session=session)[0], outlives, "restarted")


@nibtest.case("ticket keys that change: those of before still open tickets")
def ticket_keys():
    first, second = os.urandom(80), os.urandom(80)
    keys = nibtls.write("ticket.keys", first)
    with echo("--ticket-keys", keys, tls=CA.context(highest=TLS12)) as server:
        _, session = one_echo(server)
        nibtls.write("ticket.keys", second + first)
        reload(server, ["read the certificates again"])
        equal(one_echo(server, session=session)[0], True, "by the old key")
        nibtls.write("ticket.keys", second)
        reload(server, ["read the certificates again"])
        equal(one_echo(server, session=session)[0], False, "without it")


# --- what may not be negotiated ---------------------------------------------

def s_client(server, *options):
    """A handshake of openssl's; returns all that it says."""
    done = subprocess.run(
        ["openssl", "s_client", "-connect", "127.0.0.1:%d" % server.port,
         "-CAfile", CA.cert, "-verify_return_error", "-servername",
         "localhost", *options], input=b"Q\n", stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=nibtest.PATIENCE, check=False)
    return done.returncode, done.stdout.decode("utf-8", "replace")


@nibtest.case("openssl s_client: modern TLS is taken, anything else refused")
def negatives():
    with echo() as server:
        for options in (("-tls1_2",), ("-alpn", "http/1.1"),
                        ("-alpn", "h2,http/1.1"),
                        ("-tls1_2", "-cipher",
                         "ECDHE-ECDSA-CHACHA20-POLY1305"),
                        ("-tls1_2", "-curves", "P-256")):
            status, text = s_client(server, *options)
            equal(status, 0, "status with %r" % (options,))
            contains(text, "Verify return code: 0")
        for options, alert in (
                (("-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"), 70),
                (("-tls1", "-cipher", "DEFAULT@SECLEVEL=0"), 70),
                (("-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA"), 40),
                (("-tls1_2", "-cipher", "kRSA"), 40),
                (("-tls1_2", "-cipher", "DHE"), 40),
                (("-alpn", "h2"), 120)):
            status, text = s_client(server, *options)
            equal(status == 0, False, "refusal of %r" % (options,))
            contains(text, "SSL alert number %d" % alert)
        status, text = s_client(server, "-alpn", "http/1.1")
        contains(text, "ALPN protocol: http/1.1")
        contains(text, "Compression: NONE")
        one_echo(server)


@nibtest.case("the client cannot renegotiate")
def renegotiation():
    with echo() as server:
        with subprocess.Popen(
                ["openssl", "s_client", "-connect",
                 "127.0.0.1:%d" % server.port, "-CAfile", CA.cert, "-tls1_2"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT) as client:
            client.stdin.write(b"R\n")
            client.stdin.flush()
            text = client.communicate(timeout=nibtest.PATIENCE)[0].decode()
        contains(text, "RENEGOTIATING", "no renegotiation")
        one_echo(server)


@nibtest.case("--tls-version and --tls-ciphers hold")
def limits():
    if len(VERSIONS) > 1:
        with echo("--tls-version", "1.3") as server:
            one_echo(server)
            equal(s_client(server, "-tls1_2")[0] == 0, False, "TLS 1.2")
    with echo("--tls-ciphers", "ECDHE-ECDSA-AES256-GCM-SHA384") as server:
        with nibtest.Peer(server) as peer:
            equal(peer.sock.cipher()[:2],
                  ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2"))
        equal(s_client(server, "-tls1_2", "-cipher",
                       "ECDHE-ECDSA-AES128-GCM-SHA256")[0] == 0, False)


@nibtest.case("sslscan finds TLS 1.2 and 1.3 with forward secrecy and AEAD, "
              "and nothing else")
def scan():
    if not shutil.which("sslscan"):
        if os.environ.get("NIB_CHECK_ALL"):
            raise AssertionError("sslscan is not installed (Debian: sslscan)")
        raise nibtest.Skip("sslscan is not installed (Debian: sslscan)")
    with echo() as server:
        text = subprocess.run(
            ["sslscan", "--no-colour", "127.0.0.1:%d" % server.port],
            stdout=subprocess.PIPE, check=True,
            timeout=3 * nibtest.PATIENCE).stdout.decode()
    on = re.findall(r"^(SSLv2|SSLv3|TLSv1\.\d)\s+enabled", text, re.M)
    equal(on, ["TLSv1.2", "TLSv1.3"][:len(VERSIONS)], "versions")
    suites = re.findall(r"^(?:Accepted|Preferred)\s+(\S+)\s+\d+ bits\s+(\S+)",
                        text, re.M)
    equal(len(suites) >= 3, True, "suites found")
    for version, suite in suites:
        good = version == "TLSv1.3" or re.fullmatch(
            r"ECDHE-ECDSA-(AES128-GCM|AES256-GCM|CHACHA20)-\S+", suite)
        equal(bool(good), True, suite)
    contains(text, "Session renegotiation not supported")


nibtest.run()
