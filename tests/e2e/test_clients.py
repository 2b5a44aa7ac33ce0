"""test_clients - clients that others wrote, and running out of descriptors.

Each client library sends every length around the boundaries of the frame
format, fragments, pings and closes; each is skipped alone if it is missing.
"""

import asyncio
import importlib
import os
import resource
import socket

import nibtest
from nibtest import equal

LOCAL = "127.0.0.1:0"
PATHS = ("/echo", "/echo-blocking")

# Around 7 bits, 16 bits, the library's own cut into frames, and more.
LENGTHS = (0, 1, 2, 124, 125, 126, 127, 128, 4085, 4086, 4087, 4096, 65534,
           65535, 65536, 65537, 131072, 131073, 1 << 20)


def serve(*options, **more):
    return nibtest.Server("nib-bench", "serve", *options, LOCAL, **more)


def library(module, package):
    """The module; a skip of this case alone if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        if os.environ.get("NIB_CHECK_ALL"):
            raise
        raise nibtest.Skip(package + " is not installed") from None


def payload(length):
    return bytes(i * 7 % 251 for i in range(min(length, 5000))).ljust(
        length, b"\xf5")


def text(length):
    return ("aé€😀" * (length // 4 + 1))[:length]


def limited(work):
    async def run():
        await asyncio.wait_for(work, 4 * nibtest.PATIENCE)
    asyncio.run(run())


# --- websockets ---------------------------------------------------------------

async def use_websockets(websockets, url):
    async with websockets.connect(url, max_size=None,
                                  compression=None) as ws:
        for length in LENGTHS:
            await ws.send(payload(length))
            equal(await ws.recv(), payload(length), "%d bytes" % length)
            if length < 65536:
                await ws.send(text(length))
                equal(await ws.recv(), text(length), "%d characters" % length)
        await ws.send(["one ", "", "two ", "three"])
        equal(await ws.recv(), "one two three", "fragments")
        pong = await ws.ping(b"x" * 125)
        await asyncio.wait_for(pong, nibtest.PATIENCE)
    for code in (1000, 1001, 1003, 1011, 3000, 4999):
        ws = await websockets.connect(url)
        await ws.close(code, "reason")
        equal(ws.close_code, code)


@nibtest.case("websockets")
def websockets_client():
    websockets = library("websockets", "python3-websockets")
    with serve() as server:
        for path in PATHS:
            limited(use_websockets(websockets, server.ws(path)))


# --- websocket-client ---------------------------------------------------------

@nibtest.case("websocket-client")
def websocket_client():
    websocket = library("websocket", "python3-websocket")
    with serve() as server:
        for path in PATHS:
            ws = websocket.create_connection(server.ws(path),
                                             timeout=nibtest.PATIENCE)
            for length in LENGTHS:
                ws.send_binary(payload(length))
                equal(ws.recv(), payload(length), "%d bytes" % length)
            ws.send(text(1000))
            equal(ws.recv(), text(1000))
            frame = websocket.ABNF.create_frame
            ws.send_frame(frame("frag", websocket.ABNF.OPCODE_TEXT, fin=0))
            ws.ping("between")
            ws.send_frame(frame("ment", websocket.ABNF.OPCODE_CONT, fin=1))
            opcode, data = ws.recv_data(control_frame=True)
            equal((opcode, data), (websocket.ABNF.OPCODE_PONG, b"between"))
            equal(ws.recv(), "fragment")
            ws.send_close(4001, b"bye")
            opcode, data = ws.recv_data(control_frame=True)
            equal((opcode, data[:2]),
                  (websocket.ABNF.OPCODE_CLOSE, b"\x0f\xa1"))
            ws.shutdown()


# --- aiohttp ------------------------------------------------------------------

async def use_aiohttp(aiohttp, url):
    async with aiohttp.ClientSession() as session:
        async with session.ws_connect(url, max_msg_size=0,
                                      timeout=nibtest.PATIENCE) as ws:
            for length in LENGTHS:
                await ws.send_bytes(payload(length))
                equal(await ws.receive_bytes(), payload(length),
                      "%d bytes" % length)
            await ws.send_str(text(1000))
            equal(await ws.receive_str(), text(1000))
            await ws.ping(b"p")
            await ws.send_str("after the ping")
            equal(await ws.receive_str(), "after the ping")
            await ws.close(code=3001, message=b"bye")
            equal(ws.close_code, 3001)


@nibtest.case("aiohttp")
def aiohttp_client():
    aiohttp = library("aiohttp", "python3-aiohttp")
    with serve() as server:
        for path in PATHS:
            limited(use_aiohttp(aiohttp, server.ws(path)))


# --- tornado ------------------------------------------------------------------

async def use_tornado(tornado, url):
    ws = await tornado.websocket_connect(url, max_message_size=1 << 24)
    for length in LENGTHS:
        await ws.write_message(payload(length), binary=True)
        equal(await ws.read_message(), payload(length), "%d bytes" % length)
    await ws.write_message(text(1000))
    equal(await ws.read_message(), text(1000))
    ws.ping(b"p")
    await ws.write_message("after the ping")
    equal(await ws.read_message(), "after the ping")
    ws.close(1000, "bye")
    equal(await ws.read_message(), None)
    equal(ws.close_code, 1000)


@nibtest.case("tornado")
def tornado_client():
    tornado = library("tornado.websocket", "python3-tornado")
    with serve() as server:
        for path in PATHS:
            limited(use_tornado(tornado, server.ws(path)))


# --- no descriptor left -------------------------------------------------------


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@nibtest.case("out of descriptors: no busy loop, and accepting goes on after")
def out_of_descriptors():
    # The default number of connections follows the limit, so the process is
    # given fewer files only after it has started.
    with serve("-t", "2") as server:
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (40, 40))
        peers = []
        for _ in range(80):
            peer = socket.create_connection((server.host, server.port),
                                            timeout=nibtest.PATIENCE)
            peers.append(peer)
        nibtest.until(lambda: server.descriptors() >= 39, "all are in use")
        before = cpu_seconds(server.pid)
        # Ten pauses of accepting go by, as this connection times out.
        with socket.create_connection((server.host, server.port)) as late:
            late.settimeout(1.0)
            try:
                late.recv(1)
            except OSError:
                pass
        used = cpu_seconds(server.pid) - before
        equal(used < 0.5, True, "CPU time below half a second: %s" % used)
        for peer in peers:
            peer.close()

        # The server learns of the ends one after the other; until a file is
        # free, it answers 503.
        def welcome():
            with nibtest.Peer(server) as peer:
                try:
                    peer.upgrade("/echo")
                except (AssertionError, OSError):
                    return False
                peer.close()
                return True

        nibtest.until(welcome, "accepting goes on")


nibtest.run()
