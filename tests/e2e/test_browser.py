"""test_browser - the chat page in a real browser, and npm's ws client.

Needs Chromium, node and the packages of package.json (npm ci, here in the
source); ./bootstrap check-all installs them.
"""

import os
import shutil
import socket
import subprocess
import threading

import nibtest
from nibtest import equal

HERE = os.path.dirname(os.path.abspath(__file__))
NODE = shutil.which("node")
CHROMIUM = shutil.which("chromium")

if not CHROMIUM:
    nibtest.skip_all("Chromium is not installed (Debian: chromium)")
if not NODE:
    nibtest.skip_all("node is not installed (Debian: nodejs)")
if not os.path.isdir(os.path.join(HERE, "node_modules")):
    nibtest.skip_all("the npm packages are not installed (npm ci in tests/e2e)")


def node(script, *args, answer=None):
    """Runs a script of this folder to its end; fails if that does. Each line
    that it prints goes to answer(line), and then a line back."""
    process = subprocess.Popen(
        [NODE, os.path.join(HERE, script), *args], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=dict(os.environ, CHROMIUM=CHROMIUM))
    overdue = threading.Timer(nibtest.CASE_DEADLINE / 2, process.kill)
    overdue.start()
    try:
        for line in process.stdout:
            answer(line.strip())
            process.stdin.write("done\n")
            process.stdin.flush()
        errors = process.stderr.read()
        equal(process.wait(), 0, "status of %s: %s" % (script, errors))
    finally:
        overdue.cancel()
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()


def browser(scenario, url, answer=None):
    node("browser.js", scenario, url, answer=answer)


class PrefixProxy:
    """A proxy that takes PREFIX off the path of each request's first line,
    one request a connection, and else passes the bytes on."""

    PREFIX = "/some/where"

    def __init__(self, server):
        self._target = (server.host, server.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d%s/" % (
            self._listener.getsockname()[1], self.PREFIX)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,),
                             daemon=True).start()

    def _serve(self, client):
        with client, socket.create_connection(self._target) as server:
            head = client.recv(65536)
            old = b"GET " + self.PREFIX.encode() + b"/ "
            if not head.startswith(old):
                return
            head = b"GET / " + head[len(old):]
            if b"\r\nUpgrade: " not in head:
                head = head.replace(b"keep-alive", b"close")
            server.sendall(head)
            back = threading.Thread(target=self._pump, args=(server, client),
                                    daemon=True)
            back.start()
            self._pump(client, server)
            back.join()

    @staticmethod
    def _pump(source, sink):
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self._listener.close()


@nibtest.case("two tabs chat")
def chat():
    with nibtest.Server("nibd", "hub", "127.0.0.1:0") as server:
        browser("chat", server.url)


@nibtest.case("two tabs chat, on a path of its own")
def chat_on_a_path():
    with nibtest.Server("nibd", "hub", "--path", "/chat",
                        "127.0.0.1:0") as server:
        browser("chat", server.url + "?from=mail#top")


@nibtest.case("two tabs chat through a proxy that strips a prefix")
def chat_behind_a_proxy():
    with nibtest.Server("nibd", "hub", "127.0.0.1:0") as server:
        proxy = PrefixProxy(server)
        try:
            browser("chat", proxy.url)
        finally:
            proxy.close()


@nibtest.case("markup in a message or a name stays text")
def markup():
    with nibtest.Server("nibd", "hub", "127.0.0.1:0") as server:
        browser("markup", server.url)


@nibtest.case("the keyboard is enough")
def keyboard():
    with nibtest.Server("nibd", "hub", "127.0.0.1:0") as server:
        browser("keyboard", server.url)


@nibtest.case("the page comes back by itself after a restart")
def reconnect():
    servers = [nibtest.Server("nibd", "hub", "127.0.0.1:0")]
    address = "127.0.0.1:%d" % servers[0].port

    def answer(line):
        if line == "stop":
            equal(servers[0].stop(), 0)
        else:
            servers.append(nibtest.Server("nibd", "hub", address))

    try:
        browser("reconnect", servers[0].url, answer)
        equal(servers[1].stop(), 0)
    finally:
        for server in servers:
            server.kill()


@nibtest.case("npm's ws client: messages, fragments, ping, close")
def ws_client():
    with nibtest.Server("nibd", "echo", "127.0.0.1:0") as server:
        node("ws_echo.js", server.ws("/any"))


nibtest.run()
