/*
 * test_handshake - heads in, and what becomes of them.
 *
 * Every head of the tables is fed whole, in two pieces cut at each place, and
 * byte by byte; the outcome must be the same, field by field.
 */

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "protocol/handshake.h"

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

/* ---- feeding ----------------------------------------------------------- */

/* All that a feed tells, as one text, so that two can be compared. */
struct outcome {
    int result;
    size_t used;
    char text[4096];
};

static void describe(struct outcome *o, const struct nib__head *h,
                     const struct nib__refusal *why)
{
    int n;

    if (o->result == -EPROTO) {
        snprintf(o->text, sizeof(o->text), "%d %s|%s", why->status, why->text,
                 why->headers);
        return;
    }
    if (o->result != 1)
        return;
    n = snprintf(o->text, sizeof(o->text),
                 "%s|%s|%s|%llu|%d%d%d%d|%s|%u lines", h->method, h->path,
                 h->query, (unsigned long long)h->content_length, h->chunked,
                 h->keep_alive, h->http_1_0, h->upgrade,
                 h->upgrade ? h->key : "", h->line_count);
    for (unsigned i = 0; i < h->line_count && n < 3000; i++)
        n += snprintf(o->text + n, sizeof(o->text) - (size_t)n,
                      "|%.200s=%.200s",
                      h->lines[i].name, h->lines[i].value);
}

/* Feeds bytes in pieces that end at `cut` and, with `each`, at every byte. */
static void feed(const char *bytes, size_t n, size_t cut, bool each,
                 struct outcome *o)
{
    struct nib__head h;
    struct nib__refusal why = {0};

    memset(o, 0, sizeof(*o));
    nib__head_init(&h, LIMIT_BYTES, LIMIT_LINES);
    while (o->used < n && o->result == 0) {
        size_t end = each ? o->used + 1 : o->used < cut ? cut : n;
        size_t piece = end - o->used;
        /* Its own block, so that a read beyond it is seen. */
        char *copy = malloc(piece);
        size_t used = 0;

        memcpy(copy, bytes + o->used, piece);
        o->result = nib__head_feed(&h, copy, piece, &used, &why);
        free(copy);
        ck_assert_uint_le(used, piece);
        if (o->result == 0)
            ck_assert_uint_eq(used, piece);
        o->used += used;
    }
    describe(o, &h, &why);
    nib__head_free(&h);
}

/* Feeds in all ways; the outcome is that of the whole. */
static void feed_all_ways(const char *bytes, size_t n, struct outcome *o)
{
    struct outcome other;

    nib__alloc_watch(true);
    feed(bytes, n, n, false, o);
    for (size_t cut = 0; cut <= n; cut++) {
        if (cut == n)
            feed(bytes, n, 0, true, &other);
        else
            feed(bytes, n, cut, false, &other);
        ck_assert_int_eq(other.result, o->result);
        ck_assert_str_eq(other.text, o->text);
        /* A refusal may come before the end of a piece, or with it. */
        if (o->result >= 0)
            ck_assert_uint_eq(other.used, o->used);
    }
    ck_assert_int_eq(nib__alloc_live(), 0);
    nib__alloc_watch(false);
}

/* ---- requests that are right ------------------------------------------- */

static const struct {
    const char *bytes;
    const char *text; /* as describe() puts it, up to the number of lines */
} good[] = {
    /* upgrades */
    {GET WS END, "GET|/||0|0101|" KEY "|5 lines"},
    {"GET /chat?room=1&x=%20 HTTP/1.1\r\n" WS END,
     "GET|/chat|room=1&x=%20|0|0101|" KEY "|5 lines"},
    {"GET /? HTTP/1.1\r\n" WS END, "GET|/||0|0101|" KEY "|5 lines"},
    {"GET /a?b?c HTTP/1.1\r\n" WS END, "GET|/a|b?c|0|0101|" KEY "|5 lines"},
    {"GET //a/../b HTTP/1.1\r\n" WS END,
     "GET|//a/../b||0|0101|" KEY "|5 lines"},
    {GET HOST WITH_KEY VERSION13 "Upgrade: websocket\r\n"
     "Connection: keep-alive, Upgrade\r\n" END,
     "GET|/||0|0101|" KEY "|5 lines"},
    {GET HOST WITH_KEY VERSION13 "Upgrade: websocket\r\n"
     "Connection: Upgrade,keep-alive\r\n" END,
     "GET|/||0|0101|" KEY "|5 lines"},
    {GET HOST WITH_KEY VERSION13 "Upgrade: websocket\r\n"
     "Connection: keep-alive\r\nConnection: Upgrade\r\n" END,
     "GET|/||0|0101|" KEY "|6 lines"},
    {GET HOST WITH_KEY VERSION13 "upgrade:WebSocket\r\n"
     "CONNECTION:\t uPGRADE \t\r\n" END,
     "GET|/||0|0101|" KEY "|5 lines"},
    {GET HOST WITH_KEY VERSION13 "Upgrade: h2c, websocket\r\n"
     "Connection: ,, Upgrade ,\r\n" END,
     "GET|/||0|0101|" KEY "|5 lines"},
    {GET HOST WITH_KEY VERSION13 "Upgrade: h2c\r\nUpgrade: WEBSOCKET\r\n"
     "Connection: Upgrade, HTTP2-Settings\r\n" END,
     "GET|/||0|0101|" KEY "|6 lines"},
    {GET HOST ASK "sec-websocket-key:" KEY "\r\n"
     "SEC-WEBSOCKET-VERSION:  13  \r\n" END,
     "GET|/||0|0101|" KEY "|5 lines"},
    {GET WS "Content-Length: 0\r\n" END, "GET|/||0|0101|" KEY "|6 lines"},
    {GET WS "Connection: close\r\n" END, "GET|/||0|0001|" KEY "|6 lines"},
    {GET WS "Sec-WebSocket-Protocol: a, b,,c\r\n"
     "Sec-WebSocket-Protocol: \r\n" END,
     "GET|/||0|0101|" KEY "|7 lines"},
    {"\r\n\r\n\r\n\r\n" GET WS END, "GET|/||0|0101|" KEY "|5 lines"},
    {"GET http://example.org/path?q HTTP/1.1\r\n" WS END,
     "GET|/path|q|0|0101|" KEY "|5 lines"},
    {"GET http://example.org HTTP/1.1\r\n" WS END,
     "GET|/||0|0101|" KEY "|5 lines"},
    {"GET wss://[::1]:8443?q/r HTTP/1.1\r\n" WS END,
     "GET|/|q/r|0|0101|" KEY "|5 lines"},
    {"GET HTTPS://h:1/x HTTP/1.1\r\n" WS END,
     "GET|/x||0|0101|" KEY "|5 lines"},
    {GET "Host: [2001:db8::1%25eth0]:80\r\n" ASK WITH_KEY VERSION13 END,
     "GET|/||0|0101|" KEY "|5 lines"},
    {GET "Host:\r\n" ASK WITH_KEY VERSION13 END,
     "GET|/||0|0101|" KEY "|5 lines"},

    /* plain requests */
    {GET HOST END, "GET|/||0|0100||1 lines|Host=example.org"},
    {GET HOST "Connection: close\r\n" END, "GET|/||0|0000||2 lines"},
    {GET HOST "Connection: CLOSE, x\r\n" END, "GET|/||0|0000||2 lines"},
    {"GET / HTTP/1.0\r\n\r\n", "GET|/||0|0010||0 lines"},
    {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
     "GET|/||0|0110||1 lines"},
    {"HEAD /x HTTP/1.1\r\n" HOST END, "HEAD|/x||0|0100||1 lines"},
    {"POST /x HTTP/1.1\r\n" HOST "Content-Length: 17\r\n" END,
     "POST|/x||17|0100||2 lines"},
    {"DELETE /x HTTP/1.1\r\n" HOST END, "DELETE|/x||0|0100||1 lines"},
    {GET HOST "Content-Length: 999999999999999999\r\n" END,
     "GET|/||999999999999999999|0100||2 lines"},
    {GET HOST "Content-Length: 007 \r\n" END, "GET|/||7|0100||2 lines"},
    {GET HOST "X:\r\nY: \t\r\nZ: a \t b \r\n" END,
     "GET|/||0|0100||4 lines|Host=example.org|X=|Y=|Z=a \t b"},
    {GET HOST "X: \x80\xff\tz\r\n!#$%&'*+-.^_`|~9: y\r\n" END,
     "GET|/||0|0100||3 lines|Host=example.org|X=\x80\xff\tz|"
     "!#$%&'*+-.^_`|~9=y"},
    {GET HOST "X: a:b: c\r\n" END,
     "GET|/||0|0100||2 lines|Host=example.org|X=a:b: c"},
    /* asks for less than an upgrade, so it is none */
    {GET HOST "Upgrade: h2c\r\nConnection: Upgrade\r\n" END,
     "GET|/||0|0100||3 lines"},
    {GET HOST "Upgrade: websocket\r\n" END, "GET|/||0|0100||2 lines"},
    {GET HOST "Upgrade: xwebsocket\r\nConnection: Upgrade\r\n" WITH_KEY END,
     "GET|/||0|0100||4 lines"},
    {GET HOST "Upgrade: websocket\r\nConnection: xUpgrade\r\n" WITH_KEY END,
     "GET|/||0|0100||4 lines"},
    {GET HOST "Upgrade: websocket/13\r\nConnection: Upgrade\r\n" END,
     "GET|/||0|0100||3 lines"},
    {GET HOST "Upgrade: websocket\r\nConnection: Upgradex, Up grade\r\n" END,
     "GET|/||0|0100||3 lines"},
    {GET HOST VERSION13 END, "GET|/||0|0100||2 lines"},
};

START_TEST(right_requests)
{
    const char *bytes = good[_i].bytes;
    struct outcome o;

    feed_all_ways(bytes, strlen(bytes), &o);
    ck_assert_int_eq(o.result, 1);
    ck_assert_uint_eq(o.used, strlen(bytes));
    ck_assert_msg(strncmp(o.text, good[_i].text, strlen(good[_i].text)) == 0,
                  "%s\nis not\n%s", o.text, good[_i].text);
}
END_TEST

START_TEST(what_follows_a_head_is_not_used)
{
    char bytes[1024];
    struct outcome o;
    size_t head = strlen(good[_i].bytes);

    /* As a frame, and as another request. */
    snprintf(bytes, sizeof(bytes), "%s\x81\x85\r\n\r\n", good[_i].bytes);
    feed_all_ways(bytes, head + 6, &o);
    ck_assert_int_eq(o.result, 1);
    ck_assert_uint_eq(o.used, head);
    snprintf(bytes, sizeof(bytes), "%s" GET, good[_i].bytes);
    feed_all_ways(bytes, strlen(bytes), &o);
    ck_assert_int_eq(o.result, 1);
    ck_assert_uint_eq(o.used, head);
}
END_TEST

START_TEST(a_cut_head_needs_more)
{
    const char *bytes = good[_i].bytes;
    struct outcome o;

    for (size_t n = 0; n < strlen(bytes); n++) {
        feed(bytes, n, n, false, &o);
        ck_assert_int_eq(o.result, 0);
        ck_assert_uint_eq(o.used, n);
    }
}
END_TEST

/* ---- requests that are not --------------------------------------------- */

#define ALLOW "Allow: GET\r\n"
#define V13                                                                  \
    "Connection: Upgrade\r\nUpgrade: websocket\r\n"                          \
    "Sec-WebSocket-Version: 13\r\n"
#define PROXY                                                                \
    "426 WebSocket request without Upgrade: websocket and Connection: "      \
    "Upgrade; does a proxy remove them?|" V13

static const struct {
    const char *bytes;
    const char *text; /* status, text, headers; "*" for any text */
} bad[] = {
    /* lines */
    {"GET / HTTP/1.1\n" WS END, "400 line that ends in a bare LF|"},
    {GET "Host: x\n" ASK WITH_KEY VERSION13 END,
     "400 line that ends in a bare LF|"},
    {GET WS "\n", "400 line that ends in a bare LF|"},
    {GET WS "X: a\rb\r\n" END, "400 control byte in a header|"},
    {GET WS "X: a\r\r\n" END, "400 control byte in a header|"},
    {GET WS "\r\r\n", "400 malformed header line|"},
    {GET WS "X: a\r\n b\r\n" END, "400 folded header line|"},
    {GET WS "X: a\r\n\tb\r\n" END, "400 folded header line|"},
    {GET " X: a\r\n" WS END, "400 folded header line|"},
    {GET WS " \r\n" END, "400 folded header line|"},
    {GET WS "X: \x01\r\n" END, "400 control byte in a header|"},
    {GET WS "X: \x1f\r\n" END, "400 control byte in a header|"},
    {GET WS "X: \x7f\r\n" END, "400 control byte in a header|"},
    {GET WS "X : a\r\n" END, "400 white space in a header's name|"},
    {GET WS "X\t: a\r\n" END, "400 white space in a header's name|"},
    {GET WS "X y: a\r\n" END, "400 white space in a header's name|"},
    {GET WS ": a\r\n" END, "400 malformed header line|"},
    {GET WS "X\r\n" END, "400 malformed header line|"},
    {GET WS "X(y): a\r\n" END, "400 malformed header line|"},
    {GET WS "X\x80: a\r\n" END, "400 malformed header line|"},
    {GET WS "X\x01: a\r\n" END, "400 malformed header line|"},

    /* request line */
    {"\r\n\r\n\r\n\r\n\r\n" GET WS END,
     "400 empty lines instead of a request|"},
    {"\r\r\n" GET WS END, "400 malformed request line|"},
    {"\n" GET WS END, "400 not an HTTP request|"},
    {" " GET WS END, "400 not an HTTP request|"},
    {"\x16\x03\x01\x02", "400 not an HTTP request|"},
    {"\x81\x85", "400 not an HTTP request|"},
    {"GET\r\n", "400 malformed request line|"},
    {"GET \r\n", "400 malformed request line|"},
    {"GET /\r\n" END, "400 malformed request line|"},
    {"GET  / HTTP/1.1\r\n" WS END, "400 malformed request line|"},
    {"GET\t/ HTTP/1.1\r\n" WS END, "400 malformed request line|"},
    {"GET / x HTTP/1.1\r\n" WS END, "400 malformed HTTP version|"},
    {"GET /  HTTP/1.1\r\n" WS END, "400 malformed HTTP version|"},
    {"GET / HTTP/1.1 \r\n" WS END, "400 malformed HTTP version|"},
    {"GET / http/1.1\r\n" WS END, "400 malformed HTTP version|"},
    {"GET / HTTP/1\r\n" WS END, "400 malformed HTTP version|"},
    {"GET / HTTP/1.11\r\n" WS END, "400 malformed HTTP version|"},
    {"GET / HTTP/01.1\r\n" WS END, "400 malformed HTTP version|"},
    {"GET / HTTP/x.1\r\n" WS END, "400 malformed HTTP version|"},
    {"GET / HTTP/1,1\r\n" WS END, "400 malformed HTTP version|"},
    {"GET / HTTP/1.2\r\n" WS END, "505 HTTP version not supported|"},
    {"GET / HTTP/0.9\r\n" WS END, "505 HTTP version not supported|"},
    {"GET / HTTP/2.0\r\n" WS END, "505 HTTP version not supported|"},
    {"GET / HTTP/9.9\r\n" WS END, "505 HTTP version not supported|"},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505 HTTP version not supported|"},
    {"GET /#a HTTP/1.1\r\n" WS END, "400 fragment in the request's target|"},
    {"GET /a?b#c HTTP/1.1\r\n" WS END,
     "400 fragment in the request's target|"},
    {"GET /\x01 HTTP/1.1\r\n" WS END, "400 malformed request line|"},
    {"GET /\x7f HTTP/1.1\r\n" WS END, "400 malformed request line|"},
    {"GET /\xc3\xa9 HTTP/1.1\r\n" WS END, "400 malformed request line|"},
    {"GET * HTTP/1.1\r\n" WS END, "400 target that is no path|"},
    {"OPTIONS * HTTP/1.1\r\n" HOST END, "400 target that is no path|"},
    {"CONNECT example.org:443 HTTP/1.1\r\n" HOST END,
     "400 target that is no path|"},
    {"GET example.org:443 HTTP/1.1\r\n" WS END, "400 *"},
    {"GET a/b HTTP/1.1\r\n" WS END, "400 *"},
    {"GET http:///x HTTP/1.1\r\n" WS END, "400 *"},
    {"GET http://u:p@h/x HTTP/1.1\r\n" WS END, "400 target that is no path|"},
    {"GET ftp://h/x HTTP/1.1\r\n" WS END, "400 target that is no path|"},
    {"FOO / HTTP/1.1\r\n" WS END, "501 unknown method|"},
    {"get / HTTP/1.1\r\n" WS END, "501 unknown method|"},
    {"GETX / HTTP/1.1\r\n" WS END, "501 unknown method|"},

    /* Host, body, repetition */
    {GET ASK WITH_KEY VERSION13 END, "400 no Host header|"},
    {GET END, "400 no Host header|"},
    {GET HOST WS END, "400 Host given twice|"},
    {"GET / HTTP/1.0\r\n" HOST HOST END, "400 Host given twice|"},
    {GET "Host: a b\r\n" END, "400 malformed Host|"},
    {GET "Host: a/b\r\n" END, "400 malformed Host|"},
    {GET "Host: a@b\r\n" END, "400 malformed Host|"},
    {GET HOST "Content-Length: 1\r\nContent-Length: 1\r\n" END, "400 *"},
    {GET HOST "Content-Length: 1, 1\r\n" END, "400 *"},
    {GET HOST "Content-Length: +1\r\n" END, "400 *"},
    {GET HOST "Content-Length: -1\r\n" END, "400 *"},
    {GET HOST "Content-Length: 0x1\r\n" END, "400 *"},
    {GET HOST "Content-Length: 1 2\r\n" END, "400 *"},
    {GET HOST "Content-Length:\r\n" END, "400 *"},
    {GET HOST "Content-Length: 1000000000000000000\r\n" END,
     "400 malformed Content-Length|"},
    {GET HOST "Content-Length: 18446744073709551616\r\n" END, "400 *"},
    {GET HOST "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n" END,
     "400 Content-Length given twice, or with Transfer-Encoding|"},
    {GET HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n" END,
     "400 Content-Length given twice, or with Transfer-Encoding|"},
    {GET HOST "Content-Length: 1\r\nTransfer-Encoding: x\r\n" END, "400 *"},
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n" END,
     "400 Transfer-Encoding where it may not be|"},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n" END,
     "501 chunked request bodies are not supported|"},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n" END, "400 *"},

    /* upgrades */
    {"POST / HTTP/1.1\r\n" WS END,
     "405 WebSocket upgrade that is not GET|" ALLOW},
    {"HEAD / HTTP/1.1\r\n" WS END,
     "405 WebSocket upgrade that is not GET|" ALLOW},
    {"GET / HTTP/1.0\r\n" WS END, "400 WebSocket upgrade in HTTP/1.0|"},
    {GET HOST ASK WITH_KEY END, "426 WebSocket version is not 13|" V13},
    {GET HOST ASK END, "426 WebSocket version is not 13|" V13},
    {GET HOST ASK WITH_KEY "Sec-WebSocket-Version: 8\r\n" END,
     "426 WebSocket version is not 13|" V13},
    {GET HOST ASK WITH_KEY "Sec-WebSocket-Version: 013\r\n" END,
     "426 WebSocket version is not 13|" V13},
    {GET HOST ASK WITH_KEY "Sec-WebSocket-Version: 13, 8\r\n" END,
     "426 WebSocket version is not 13|" V13},
    {GET HOST ASK WITH_KEY "Sec-WebSocket-Version:\r\n" END,
     "426 WebSocket version is not 13|" V13},
    {GET WS VERSION13 END, "400 Sec-WebSocket-Version given twice|"},
    {GET WS WITH_KEY END, "400 Sec-WebSocket-Key given twice|"},
    {GET HOST ASK VERSION13 END, "400 no Sec-WebSocket-Key|"},
    {GET HOST ASK VERSION13 "Sec-WebSocket-Key:\r\n" END,
     "400 malformed Sec-WebSocket-Key|"},
    {GET HOST ASK VERSION13 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ\r\n" END,
     "400 malformed Sec-WebSocket-Key|"},
    {GET HOST ASK VERSION13 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZR==\r\n"
     END, "400 malformed Sec-WebSocket-Key|"},
    {GET HOST ASK VERSION13 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=\r\n"
     END, "400 malformed Sec-WebSocket-Key|"},
    {GET HOST ASK VERSION13 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZXh4\r\n"
     END, "400 malformed Sec-WebSocket-Key|"},
    {GET HOST ASK VERSION13 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j\r\n" END,
     "400 malformed Sec-WebSocket-Key|"},
    {GET HOST ASK VERSION13 "Sec-WebSocket-Key: dGhlIHNhbXB_ZSBub25jZQ==\r\n"
     END, "400 malformed Sec-WebSocket-Key|"},
    {GET HOST ASK VERSION13 "Sec-WebSocket-Key: dGhlIHNhb XBsZSBub25jZQ==\r\n"
     END, "400 malformed Sec-WebSocket-Key|"},
    {GET WS "Content-Length: 1\r\n" END, "400 WebSocket upgrade with a body|"},
    {GET WS "Transfer-Encoding: chunked\r\n" END,
     "400 WebSocket upgrade with a body|"},
    {GET WS "Sec-WebSocket-Protocol: a b\r\n" END,
     "400 malformed Sec-WebSocket-Protocol|"},
    {GET WS "Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: b/c\r\n"
     END, "400 malformed Sec-WebSocket-Protocol|"},
    {GET HOST WITH_KEY VERSION13 END, PROXY},
    {GET HOST WITH_KEY VERSION13 "Upgrade: websocket\r\n" END, PROXY},
    {GET HOST WITH_KEY VERSION13 "Connection: Upgrade\r\n" END, PROXY},
    {GET HOST WITH_KEY VERSION13 "Upgrade: websocket\r\n"
     "Connection: xUpgrade\r\n" END, PROXY},
    {GET HOST WITH_KEY VERSION13 "Upgrade: websocket\r\n"
     "Connection: Upgradex, keep-alive\r\n" END, PROXY},
    {GET HOST WITH_KEY VERSION13 "Upgrade: web socket\r\n"
     "Connection: Upgrade\r\n" END, PROXY},
};

/* Checks that the outcome is the refusal that the table's text says. */
static void check_refusal(const struct outcome *o, const char *text)
{
    size_t n = strlen(text);

    if (text[n - 1] == '*')
        ck_assert_msg(strncmp(o->text, text, n - 1) == 0, "%s\nis not\n%s",
                      o->text, text);
    else
        ck_assert_str_eq(o->text, text);
    ck_assert_int_eq(o->result, -EPROTO);
}

START_TEST(wrong_requests)
{
    struct outcome o;

    feed_all_ways(bad[_i].bytes, strlen(bad[_i].bytes), &o);
    check_refusal(&o, bad[_i].text);
}
END_TEST

START_TEST(a_nul_is_refused_wherever_it_is)
{
    static const char whole[] = GET WS END;
    char bytes[sizeof(whole)];
    struct outcome o;

    for (size_t at = 0; at < sizeof(whole) - 1; at++) {
        memcpy(bytes, whole, sizeof(whole));
        bytes[at] = '\0';
        feed(bytes, sizeof(whole) - 1, sizeof(whole), false, &o);
        if (at == sizeof(whole) - 2) { /* instead of the last LF */
            ck_assert_int_eq(o.result, 0);
            continue;
        }
        ck_assert_int_eq(o.result, -EPROTO);
        ck_assert_int_eq(strncmp(o.text, "400 ", 4), 0);
    }
}
END_TEST

START_TEST(strings_are_safe_after_a_refusal)
{
    struct nib__head h;
    struct nib__refusal why;
    const char *token;
    size_t used;

    nib__head_init(&h, LIMIT_BYTES, LIMIT_LINES);
    ck_assert_str_eq(h.method, "");
    ck_assert_str_eq(h.path, "");
    ck_assert_str_eq(h.query, "");
    ck_assert_ptr_null(nib__head_value(&h, "Host", 0));

    /* Refused by http-parser, with lines half made. */
    ck_assert_int_eq(nib__head_feed(&h, GET HOST "Content-Length: x\r\n\r\n",
                                    sizeof(GET HOST "Content-Length: x\r\n"
                                                    "\r\n") - 1,
                                    &used, &why),
                     -EPROTO);
    ck_assert_str_eq(h.method, "");
    ck_assert_str_eq(h.path, "");
    ck_assert_ptr_null(nib__head_value(&h, "Host", 0));
    ck_assert_uint_eq(nib__head_token(&h, "Host", 0, &token), 0);
    nib__head_free(&h);
    nib__head_free(&h);

    /* Refused when judged: what it asked for can be logged. */
    ck_assert_int_eq(nib__head_feed(&h, "POST /p?q HTTP/1.1\r\n" WS END,
                                    sizeof("POST /p?q HTTP/1.1\r\n" WS END) -
                                        1,
                                    &used, &why),
                     -EPROTO);
    ck_assert_str_eq(h.method, "POST");
    ck_assert_str_eq(h.path, "/p");
    ck_assert_str_eq(h.query, "q");
    ck_assert(!h.upgrade);
    nib__head_free(&h);
}
END_TEST

/* ---- limits ------------------------------------------------------------ */

/* Feeds n bytes whole or one by one; returns the result or minus status. */
static int feed_limited(const char *bytes, size_t n, size_t limit_bytes,
                        unsigned limit_lines, bool each, size_t *used)
{
    struct nib__head h;
    struct nib__refusal why = {0};
    int result = 0;

    *used = 0;
    nib__head_init(&h, limit_bytes, limit_lines);
    while (*used < n && result == 0) {
        size_t taken;

        result = nib__head_feed(&h, bytes + *used, each ? 1 : n, &taken, &why);
        *used += taken;
        ck_assert_uint_le(h.capacity, 2 * limit_bytes + 512);
    }
    nib__head_free(&h);
    return result == -EPROTO ? -why.status : result;
}

static void check_limited(const char *bytes, size_t n, size_t limit_bytes,
                          unsigned limit_lines, int expected)
{
    size_t used;

    ck_assert_int_eq(
        feed_limited(bytes, n, limit_bytes, limit_lines, false, &used),
        expected);
    ck_assert_int_eq(
        feed_limited(bytes, n, limit_bytes, limit_lines, true, &used),
        expected);
}

START_TEST(request_line_limit)
{
    char bytes[4096];
    size_t used;

    /* The line alone: 1024 of 2048 bytes are right, 1025 too many. */
    for (size_t len = 1023; len <= 1026; len++) {
        int expected = len <= 1024 ? 1 : -414;
        size_t n = (size_t)sprintf(bytes, "GET /%*s HTTP/1.1\r\n", 0, "");

        ck_assert_uint_eq(n, 16);
        memset(bytes + 5, 'x', len);
        n = len - 9;
        n += (size_t)sprintf(bytes + n, " HTTP/1.1\r\n");
        ck_assert_uint_eq(n, len + 2);
        n += (size_t)sprintf(bytes + n, HOST END);
        check_limited(bytes, n, 2048, LIMIT_LINES, expected);
    }
    /* Known before its end comes. */
    memset(bytes, 'x', sizeof(bytes));
    ck_assert_int_eq(feed_limited(bytes, 4096, 2048, 100, true, &used), -414);
    ck_assert_uint_eq(used, 1025);
    ck_assert_int_eq(feed_limited(bytes, 1024, 2048, 100, true, &used), 0);
    ck_assert_int_eq(feed_limited(bytes, 4096, 2048, 100, false, &used), -414);
}
END_TEST

START_TEST(head_limit)
{
    char bytes[4096];
    size_t n = (size_t)sprintf(bytes, GET HOST "X: ");
    size_t used;

    memset(bytes + n, 'x', 2048);
    for (size_t total = 2046; total <= 2050; total++) {
        memset(bytes + n, 'x', 2048);
        memcpy(bytes + total - 4, "\r\n\r\n", 4);
        check_limited(bytes, total, 2048, LIMIT_LINES,
                      total <= 2048 ? 1 : -431);
        check_limited(bytes, total, total, LIMIT_LINES, 1);
        check_limited(bytes, total, total - 1, LIMIT_LINES, -431);
    }
    /* Known before its end comes, and not an LF too early. */
    memset(bytes + n, 'x', 2048);
    ck_assert_int_eq(feed_limited(bytes, 2048, 2048, 100, true, &used), 0);
    ck_assert_int_eq(feed_limited(bytes, 2049, 2048, 100, true, &used), -431);
    ck_assert_uint_eq(used, 2049);
}
END_TEST

START_TEST(line_limit)
{
    char bytes[4096];

    for (int lines = 1; lines <= 5; lines++) {
        size_t n = (size_t)sprintf(bytes, GET HOST);

        for (int i = 1; i < lines; i++)
            n += (size_t)sprintf(bytes + n, "X: y\r\n");
        n += (size_t)sprintf(bytes + n, END);
        check_limited(bytes, n, 4096, (unsigned)lines, 1);
        check_limited(bytes, n, 4096, (unsigned)lines + 1, 1);
        if (lines > 1)
            check_limited(bytes, n, 4096, (unsigned)lines - 1, -431);
        check_limited(bytes, n, 4096, 3, lines <= 3 ? 1 : -431);
    }
}
END_TEST

/* More than http-parser's own limit of 80 KiB; it must not matter. */
START_TEST(large_heads)
{
    size_t size = 1024 * 1024;
    char *bytes = malloc(size);
    size_t n = (size_t)sprintf(bytes, "GET /");
    struct nib__head h;
    struct nib__refusal why;
    size_t used;

    memset(bytes + n, 'p', 200000);
    n += 200000;
    n += (size_t)sprintf(bytes + n, " HTTP/1.1\r\n" HOST);
    memset(bytes + n, 'N', 100000);
    n += 100000;
    n += (size_t)sprintf(bytes + n, ": ");
    memset(bytes + n, 'v', 300000);
    n += 300000;
    n += (size_t)sprintf(bytes + n, "\r\nA: b\r\n\r\n");

    nib__alloc_watch(true);
    nib__head_init(&h, size, LIMIT_LINES);
    for (size_t at = 0; at < n; at++) {
        int result = nib__head_feed(&h, bytes + at, 1, &used, &why);

        ck_assert_int_eq(result, at == n - 1);
    }
    ck_assert_int_lt(nib__alloc_count(), 20);
    ck_assert_uint_eq(strlen(h.path), 200001);
    ck_assert_uint_eq(strlen(h.lines[1].name), 100000);
    ck_assert_uint_eq(strlen(h.lines[1].value), 300000);
    ck_assert_str_eq(nib__head_value(&h, "a", 0), "b");
    nib__head_free(&h);
    ck_assert_int_eq(nib__alloc_live(), 0);
    nib__alloc_watch(false);
    free(bytes);
}
END_TEST

/* ---- two heads, memory ------------------------------------------------- */

/* Nothing of one request on a connection is left for the next. */
START_TEST(requests_follow_each_other)
{
    static const char *const orders[2][2] = {
        {GET HOST "Content-Length: 3\r\n" END, GET WS END},
        {GET WS END, "HEAD /x?y HTTP/1.0\r\n" END},
    };
    const char *const *order = orders[_i];
    char bytes[1024];
    size_t n = (size_t)sprintf(bytes, "%s%s", order[0], order[1]);

    for (size_t cut = 0; cut <= n; cut++) {
        struct nib__head h;
        struct nib__refusal why;
        size_t at = 0;
        int found = 0;

        nib__head_init(&h, LIMIT_BYTES, LIMIT_LINES);
        while (at < n) {
            size_t end = at < cut ? cut : n;
            size_t used;

            if (nib__head_feed(&h, bytes + at, end - at, &used, &why) == 1) {
                found++;
                ck_assert_int_eq(h.upgrade, found == 2 - _i);
                ck_assert_uint_eq(h.content_length,
                                  found == 1 && _i == 0 ? 3U : 0U);
                ck_assert_int_eq(h.http_1_0, found == 2 && _i == 1);
                if (found == 2 && _i == 1) {
                    ck_assert_str_eq(h.method, "HEAD");
                    ck_assert_str_eq(h.query, "y");
                    ck_assert_uint_eq(h.line_count, 0);
                }
                nib__head_free(&h);
            }
            at += used;
        }
        ck_assert_int_eq(found, 2);
        nib__head_free(&h);
    }
}
END_TEST

START_TEST(every_allocation_fails_once)
{
    char bytes[2048];
    size_t n = (size_t)sprintf(bytes, GET WS "X: ");
    bool failed = true;
    int runs = 0;

    memset(bytes + n, 'x', 1200); /* so that the buffer grows twice */
    n += 1200;
    n += (size_t)sprintf(bytes + n, "\r\n\r\n");
    while (failed) {
        struct nib__head h;
        struct nib__refusal why;
        size_t at = 0;
        int result = 0;

        nib__alloc_watch(true);
        nib__alloc_fail_at(++runs);
        nib__head_init(&h, LIMIT_BYTES, LIMIT_LINES);
        while (at < n && result == 0) {
            size_t piece = n - at < 100 ? n - at : 100;
            size_t used;

            result = nib__head_feed(&h, bytes + at, piece, &used, &why);
            at += used;
        }
        failed = !nib__alloc_fail_pending();
        nib__alloc_fail_at(0);
        ck_assert_int_eq(result, failed ? -ENOMEM : 1);
        nib__head_free(&h);
        ck_assert_int_eq(nib__alloc_live(), 0);
        nib__alloc_watch(false);
    }
    ck_assert_int_eq(runs, 5); /* 512, 1024, 2048 bytes, the lines; success */
}
END_TEST

/* ---- looking things up ------------------------------------------------- */

static void parse_good(struct nib__head *h, const char *bytes)
{
    struct nib__refusal why;
    size_t used;

    nib__head_init(h, LIMIT_BYTES, LIMIT_LINES);
    ck_assert_int_eq(nib__head_feed(h, bytes, strlen(bytes), &used, &why), 1);
}

START_TEST(values_and_tokens)
{
    struct nib__head h;
    const char *token;

    parse_good(&h, GET WS "Sec-WebSocket-Protocol: chat,  super.chat\r\n"
                          "X: 1\r\nsec-websocket-protocol:,\t,x ,\r\n"
                          "SEC-WEBSOCKET-PROTOCOL: last\r\nx: 2\r\n" END);
    ck_assert_str_eq(nib__head_value(&h, "X", 0), "1");
    ck_assert_str_eq(nib__head_value(&h, "x", 1), "2");
    ck_assert_ptr_null(nib__head_value(&h, "x", 2));
    ck_assert_ptr_null(nib__head_value(&h, "", 0));
    ck_assert_ptr_null(nib__head_value(&h, "xx", 0));
    ck_assert_str_eq(nib__head_value(&h, "hOST", 0), "example.org");

    ck_assert_uint_eq(
        nib__head_token(&h, "Sec-WebSocket-Protocol", 0, &token), 4);
    ck_assert_mem_eq(token, "chat", 4);
    ck_assert_uint_eq(
        nib__head_token(&h, "Sec-WebSocket-Protocol", 1, &token), 10);
    ck_assert_mem_eq(token, "super.chat", 10);
    ck_assert_uint_eq(
        nib__head_token(&h, "Sec-WebSocket-Protocol", 2, &token), 1);
    ck_assert_mem_eq(token, "x", 1);
    ck_assert_uint_eq(
        nib__head_token(&h, "Sec-WebSocket-Protocol", 3, &token), 4);
    ck_assert_mem_eq(token, "last", 4);
    ck_assert_uint_eq(
        nib__head_token(&h, "Sec-WebSocket-Protocol", 4, &token), 0);
    ck_assert_uint_eq(nib__head_token(&h, "Nothing", 0, &token), 0);

    ck_assert(nib__head_has_token(&h, "Sec-WebSocket-Protocol", "LAST"));
    ck_assert(nib__head_has_token(&h, "Sec-WebSocket-Protocol", "super.Chat"));
    ck_assert(!nib__head_has_token(&h, "Sec-WebSocket-Protocol", "super"));
    ck_assert(!nib__head_has_token(&h, "Sec-WebSocket-Protocol", "chats"));
    ck_assert(!nib__head_has_token(&h, "Sec-WebSocket-Protocol", ""));
    ck_assert(!nib__head_has_token(&h, "Nothing", "x"));
    nib__head_free(&h);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("handshake");
    TCase *tc = tcase_create("handshake");
    SRunner *runner = srunner_create(suite);
    int goods = (int)(sizeof(good) / sizeof(good[0]));
    int bads = (int)(sizeof(bad) / sizeof(bad[0]));
    int failed;

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, right_requests, 0, goods);
    tcase_add_loop_test(tc, what_follows_a_head_is_not_used, 0, goods);
    tcase_add_loop_test(tc, a_cut_head_needs_more, 0, goods);
    tcase_add_loop_test(tc, wrong_requests, 0, bads);
    tcase_add_test(tc, a_nul_is_refused_wherever_it_is);
    tcase_add_test(tc, strings_are_safe_after_a_refusal);
    tcase_add_test(tc, request_line_limit);
    tcase_add_test(tc, head_limit);
    tcase_add_test(tc, line_limit);
    tcase_add_test(tc, large_heads);
    tcase_add_loop_test(tc, requests_follow_each_other, 0, 2);
    tcase_add_test(tc, every_allocation_fails_once);
    tcase_add_test(tc, values_and_tokens);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
