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
#include "heads.h"
#include "protocol/handshake.h"

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
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
