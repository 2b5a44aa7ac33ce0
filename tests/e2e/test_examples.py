"""test_examples - the programs of tests/examples do what they show.

A basic exchange with each; that they end by SIGTERM with status 0 is part of
nibtest.Server.
"""
import select
import signal
import threading

import nibtest
from nibtest import BINARY, TEXT, equal

LISTEN = "tcp:127.0.0.1:0"
NORMAL = (1000, "")


def example(name):
    return nibtest.Server("tests/examples/" + name, LISTEN)


def echoes(server):
    """Text and binary come back, in order, and a Close is answered."""
    with nibtest.Peer(server) as peer:
        peer.upgrade()
        peer.send_frame(TEXT, b"one")
        peer.send_frame(BINARY, b"\x00\xff" * 40000)
        equal(peer.read_message(), (TEXT, b"one"))
        equal(peer.read_message(), (BINARY, b"\x00\xff" * 40000))
        peer.close()


@nibtest.case("echo_blocking: messages come back")
def echo_blocking():
    with example("echo_blocking") as server:
        echoes(server)


@nibtest.case("own_threads: messages come back, to more than the threads")
def own_threads():
    with example("own_threads") as server:
        for _ in range(9):
            echoes(server)


@nibtest.case("callbacks: messages come back")
def callbacks():
    with example("callbacks") as server:
        echoes(server)


@nibtest.case("callbacks: a client that does not read loses nothing")
def back_pressure():
    size, count = 15000, 300
    with example("callbacks") as server:
        with nibtest.Peer(server, receive_buffer=4096) as peer:
            peer.upgrade()
            rest = b"".join(nibtest.frame(BINARY, b"%06d" % i * size)
                            for i in range(count))
            # As much as the buffers on the way take, and the outbox.
            while select.select([], [peer.sock], [], 0.5)[1]:
                rest = rest[peer.sock.send(rest[:65536]):]
                equal(bool(rest), True, "the server holds up its client")
            sender = threading.Thread(target=peer.send, args=(rest,))
            sender.start()
            for i in range(count):
                equal(peer.read_message(), (BINARY, b"%06d" % i * size))
            sender.join()
            peer.close()


@nibtest.case("topic: everyone hears everyone, the sender included")
def topic():
    with example("topic") as server:
        with nibtest.Peer(server) as one, nibtest.Peer(server) as two:
            for peer in (one, two):
                peer.upgrade()
                # A member hears itself once it has subscribed, which is
                # before its handler receives.
                peer.send_frame(TEXT, b"here")
                equal(peer.read_message(), (TEXT, b"here"))
            equal(one.read_message(), (TEXT, b"here"))
            one.send_frame(BINARY, b"from one")
            for peer in (one, two):
                equal(peer.read_message(), (BINARY, b"from one"))
                peer.close()


@nibtest.case("threads: each message is whole, each thread's are in order")
def threads():
    with example("threads") as server:
        with nibtest.Peer(server) as peer:
            peer.upgrade()
            following = {}
            for _ in range(8 * 1000):
                kind, text = peer.read_message()
                equal(kind, TEXT)
                thread, number = map(int, text.split())
                equal(number, following.get(thread, 0), "of %d" % thread)
                following[thread] = number + 1
            equal(following, {thread: 1000 for thread in range(8)})
            equal(peer.read_close(), NORMAL)


@nibtest.case("reject: 401 with a body, or a welcome")
def reject():
    with example("reject") as server:
        for headers in ([], [("Authorization", "Bearer shark")]):
            with nibtest.Peer(server) as peer:
                peer.request_upgrade(headers=headers)
                status, answer = peer.read_head()
                equal(status, 401)
                equal(answer["www-authenticate"], "Bearer")
                body = b"Only with the word.\n"
                equal(answer["content-length"], str(len(body)))
                equal(peer.read(len(body)), body)
                peer.read_eof()
        with nibtest.Peer(server) as peer:
            peer.upgrade(headers=[("Authorization", "Bearer swordfish")])
            equal(peer.read_message(), (TEXT, b"welcome"))
            equal(peer.read_close(), NORMAL)


@nibtest.case("http: a page and a WebSocket at one address")
def http():
    with example("http") as server:
        status, headers, body = nibtest.http(server)
        equal(status, 200)
        equal(headers["content-type"], "text/html")
        equal(body[:15], b"<!DOCTYPE html>")
        with nibtest.Peer(server) as peer:
            peer.upgrade()
            equal(peer.read_message(), (TEXT, b"hello"))
            equal(peer.read_close(), NORMAL)


@nibtest.case("SIGINT closes what is open with 1001")
def interrupted():
    with example("callbacks") as server:
        with nibtest.Peer(server) as peer:
            peer.upgrade()
            peer.send_frame(TEXT, b"x")
            equal(peer.read_message(), (TEXT, b"x"))
            server.send_signal(signal.SIGINT)
            equal(peer.read_close(), (1001, ""))
            peer.send_frame(nibtest.CLOSE, nibtest.close_payload(1001))
            equal(server.wait(), 0, "exit status")


nibtest.run()
