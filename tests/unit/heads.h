/*
 * heads - parts of request heads for tests.
 */

#ifndef NIB__TESTS_UNIT_HEADS_H
#define NIB__TESTS_UNIT_HEADS_H

enum {
    LIMIT_BYTES = 16 * 1024,
    LIMIT_LINES = 100,
};

#define KEY "dGhlIHNhbXBsZSBub25jZQ=="
#define HOST "Host: example.org\r\n"
#define ASK "Upgrade: websocket\r\nConnection: Upgrade\r\n"
#define WITH_KEY "Sec-WebSocket-Key: " KEY "\r\n"
#define VERSION13 "Sec-WebSocket-Version: 13\r\n"
#define WS HOST ASK WITH_KEY VERSION13
#define GET "GET / HTTP/1.1\r\n"
#define END "\r\n"

#endif
