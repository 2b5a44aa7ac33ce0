/*
 * test_tls_engine - handshakes and data between two sessions, in memory.
 *
 * For whichever TLS library is in.
 */

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "system/tls_suites.h"
#include "tls/pair.h"

enum { BULK = 100 * 1000, VERSIONS = 2 };

static const unsigned versions[VERSIONS] = {NIB__TLS_1_2, NIB__TLS_1_3};
static const char *const version_names[VERSIONS] = {"TLSv1.2", "TLSv1.3"};

static struct pair pair;
static struct nib__engine *client, *server; /* freed after each case */

static void teardown(void)
{
    pair_close(&pair);
    nib__engine_free(client);
    nib__engine_free(server);
    client = server = NULL;
}

/* A pair that has shaken hands in this version. */
static void meet_in(unsigned version)
{
    client = client_engine(
        &(struct nib__tls_client_settings){.max_version = version});
    server = server_engine(NULL);
    meet(&pair, client, server);
}

/* Where a pattern is, or NULL. */
static uint8_t *find(struct peer *peer, const void *pattern, size_t len)
{
    return memmem(peer->in + peer->in_off, peer->in_len, pattern, len);
}

/* ---- handshakes ---- */

START_TEST(the_highest_version_is_taken)
{
    bool has_13 = nib__engine_has_version(NIB__TLS_1_3);
    struct nib__tls_info info;

    client = client_engine(NULL);
    server = server_engine(NULL);
    info = meet(&pair, client, server);
    ck_assert_str_eq(info.version, version_names[has_13]);
    ck_assert_str_eq(info.server_name, "localhost");
    ck_assert_str_eq(info.peer_name, "");
    ck_assert(!info.resumed);
}
END_TEST

START_TEST(a_client_may_have_a_highest_version)
{
    struct nib__tls_info info;

    if (!nib__engine_has_version(versions[_i]))
        return;
    client = client_engine(
        &(struct nib__tls_client_settings){.max_version = versions[_i]});
    server = server_engine(NULL);
    info = meet(&pair, client, server);
    ck_assert_str_eq(info.version, version_names[_i]);
}
END_TEST

START_TEST(a_server_may_have_a_least_version)
{
    if (!nib__engine_has_version(NIB__TLS_1_3))
        return;
    client = client_engine(
        &(struct nib__tls_client_settings){.max_version = NIB__TLS_1_2});
    server = server_engine(
        &(struct nib__tls_server_settings){.min_version = NIB__TLS_1_3});
    pair_open(&pair, client, server, "localhost");
    ck_assert(!shake_hands(&pair, WHOLE));
    ck_assert_int_eq(pair.server.result, -EPROTO);
    ck_assert_str_eq(nib__session_error(pair.server.session),
                     "no TLS version in common");
    ck_assert_int_eq(pair.client.result, -EPROTO);
    ck_assert_str_ne(nib__session_error(pair.client.session), "");
}
END_TEST

START_TEST(bytes_may_come_one_at_a_time)
{
    if (!nib__engine_has_version(versions[_i]))
        return;
    client = client_engine(
        &(struct nib__tls_client_settings){.max_version = versions[_i]});
    server = server_engine(NULL);
    pair_open(&pair, client, server, "localhost");
    ck_assert(shake_hands(&pair, 1));
}
END_TEST

START_TEST(a_stream_may_end_within_the_handshake)
{
    client = client_engine(NULL);
    server = server_engine(NULL);
    pair_open(&pair, client, server, "localhost");
    ck_assert_int_eq(shake(&pair.client), NIB__WANT_READ);
    arrive(&pair.server, 20);
    ck_assert_int_eq(shake(&pair.server), NIB__WANT_READ);
    pair.server.in_len = pair.server.arrived;
    pair.server.eof = true;
    ck_assert_int_eq(shake(&pair.server), NIB__TRUNCATED);
    pair.client.eof = true;
    ck_assert_int_eq(shake(&pair.client), NIB__TRUNCATED);
}
END_TEST

static void receive(struct peer *peer, const void *bytes, size_t len)
{
    memcpy(peer->in, bytes, len);
    peer->in_off = 0;
    peer->in_len = peer->arrived = len;
}

START_TEST(what_is_not_tls_is_refused)
{
    static const char *const texts[] = {
        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n",
    };

    server = server_engine(NULL);
    client = client_engine(NULL);
    pair_open(&pair, client, server, "localhost");
    receive(&pair.server, texts[_i], strlen(texts[_i]));
    ck_assert_int_eq(shake(&pair.server), -EPROTO);
    ck_assert_ptr_nonnull(
        strstr(nib__session_error(pair.server.session), "not TLS"));
    ck_assert_int_eq(shake(&pair.server), -EPROTO);
    ck_assert_int_eq(hang_up(&pair.server), 0);
}
END_TEST

/* Every bit of the ClientHello is turned. Nothing may crash or hang, whatever
   the handshake comes to. */
START_TEST(no_hello_does_harm)
{
    size_t len = 1;

    client = client_engine(NULL);
    server = server_engine(NULL);
    for (size_t i = 0; i < len; i++) {
        pair_open(&pair, client, server, "localhost");
        shake(&pair.client);
        len = pair.server.in_len;
        pair.server.in[i] ^= (uint8_t)(1u << (i % 8));
        shake_hands(&pair, WHOLE);
        pair_close(&pair);
    }
    ck_assert_uint_gt(len, 100);
}
END_TEST

START_TEST(http_1_1_is_agreed_on)
{
    client = client_engine(
        &(struct nib__tls_client_settings){.max_version = NIB__TLS_1_2});
    server = server_engine(NULL);
    pair_open(&pair, client, server, "localhost");
    shake(&pair.client);
    arrive(&pair.server, WHOLE);
    shake(&pair.server);
    ck_assert_ptr_nonnull(find(&pair.client, "\x08http/1.1", 9));
}
END_TEST

START_TEST(no_other_protocol_is)
{
    static const uint8_t alert[] = {21, 3, 3, 0, 2, 2, 120};
    uint8_t *offer;

    client = client_engine(NULL);
    server = server_engine(NULL);
    pair_open(&pair, client, server, "localhost");
    shake(&pair.client);
    offer = find(&pair.server, "\x08http/1.1", 9);
    ck_assert_ptr_nonnull(offer);
    memcpy(offer, "\x08http/9.9", 9);
    arrive(&pair.server, WHOLE);
    ck_assert_int_eq(shake(&pair.server), -EPROTO);
    ck_assert_ptr_nonnull(strstr(nib__session_error(pair.server.session),
                                 "no application protocol in common"));
    ck_assert_uint_eq(pair.client.in_len, sizeof alert);
    ck_assert_mem_eq(pair.client.in, alert, sizeof alert);
}
END_TEST

/* ---- cipher suites ---- */

/* What a server with these suites and this certificate agrees on. */
static struct nib__tls_info agree(const char *cert, const uint16_t *suites,
                                  unsigned count, unsigned max_version)
{
    client = client_engine(
        &(struct nib__tls_client_settings){.max_version = max_version});
    server = server_engine(&(struct nib__tls_server_settings){
        .certs = pair_cert(cert),
        .cert_count = 1,
        .min_version = NIB__TLS_1_2,
        .suites = suites,
        .suite_count = count,
    });
    return meet(&pair, client, server);
}

START_TEST(the_server_has_the_choice_of_suites)
{
    static const uint16_t suites[][2] = {
        {NIB__ECDSA_AES_256_GCM, NIB__ECDSA_CHACHA20},
        {NIB__ECDSA_CHACHA20, NIB__ECDSA_AES_256_GCM},
        {NIB__ECDSA_AES_128_GCM, NIB__ECDSA_AES_256_GCM},
    };
    /* Suites of TLS 1.2 alone: nothing newer is spoken. */
    struct nib__tls_info info = agree("localhost", suites[_i], 2, 0);

    ck_assert_str_eq(info.version, "TLSv1.2");
    ck_assert_str_eq(info.cipher, nib__tls_suite(suites[_i][0])->name);
}
END_TEST

START_TEST(an_rsa_certificate_has_its_suites)
{
    static const uint16_t suites[] = {
        NIB__ECDSA_CHACHA20,
        NIB__RSA_AES_256_GCM,
        NIB__RSA_CHACHA20,
    };
    struct nib__tls_info info = agree("rsa", suites, 3, 0);

    ck_assert_str_eq(info.cipher, "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384");
}
END_TEST

START_TEST(each_suite_of_tls_1_3_works)
{
    static const uint16_t suites[] = {
        NIB__TLS13_AES_128_GCM,
        NIB__TLS13_AES_256_GCM,
        NIB__TLS13_CHACHA20,
    };
    struct nib__tls_info info;

    if (!nib__engine_has_version(NIB__TLS_1_3))
        return;
    info = agree("localhost", &suites[_i], 1, 0);
    ck_assert_str_eq(info.version, "TLSv1.3");
    ck_assert_str_eq(info.cipher, nib__tls_suite(suites[_i])->name);
}
END_TEST

START_TEST(chacha20_is_first_where_aes_is_slow)
{
    struct nib__tls_info info;

    if (strncmp(nib__engine_library(), "Mbed", 4) != 0)
        return;
    info = agree("localhost", NULL, 0, NIB__TLS_1_2);
    ck_assert_str_eq(info.cipher,
                     "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256");
}
END_TEST

START_TEST(no_suite_in_common_is_said)
{
    static const uint16_t suites[] = {NIB__RSA_CHACHA20};
    static const char said[] = "no cipher suite in common";

    client = client_engine(NULL);
    server = server_engine(&(struct nib__tls_server_settings){
        .min_version = NIB__TLS_1_2,
        .suites = suites,
        .suite_count = 1,
    });
    pair_open(&pair, client, server, "localhost");
    ck_assert(!shake_hands(&pair, WHOLE));
    ck_assert_int_eq(strncmp(nib__session_error(pair.server.session), said,
                             strlen(said)),
                     0);
    ck_assert_int_eq(pair.server.result, -EPROTO);
    ck_assert_int_eq(pair.client.result, -EPROTO);
}
END_TEST

/* ---- names ---- */

struct visit {
    const char *name;
    bool good;
    const char *sni;
};

START_TEST(a_server_has_a_certificate_for_each_name)
{
    static const struct visit visits[] = {
        {"localhost", true, "localhost"},
        {"LocalHost", true, "LocalHost"},
        {"other.example", true, "other.example"},
        {"OTHER.example", true, "OTHER.example"},
        {"a.wild.example", true, "a.wild.example"},
        {"A.Wild.Example", true, "A.Wild.Example"},
        {"wild.example", false, "wild.example"},
        {"a.b.wild.example", false, "a.b.wild.example"},
        {"unknown.example", false, "unknown.example"},
        {"127.0.0.1", true, ""},
        {"::1", true, ""},
        {"127.0.0.2", false, ""},
        {"::2", false, ""},
    };
    struct nib__tls_cert certs[2];

    certs[0] = *pair_cert("localhost");
    certs[1] = *pair_cert("other");
    client = client_engine(NULL);
    server = server_engine(&(struct nib__tls_server_settings){
        .certs = certs,
        .cert_count = 2,
        .min_version = NIB__TLS_1_2,
    });
    for (size_t i = 0; i < sizeof visits / sizeof visits[0]; i++) {
        struct nib__tls_info info;

        pair_open(&pair, client, server, visits[i].name);
        shake_hands(&pair, WHOLE);
        ck_assert_msg(pair.client.result == (visits[i].good ? 0 : -EPROTO),
                      "%s: %s", visits[i].name,
                      nib__session_error(pair.client.session));
        nib__session_info(pair.server.session, &info);
        ck_assert_str_eq(info.server_name, visits[i].sni);
        pair_close(&pair);
    }
}
END_TEST

START_TEST(an_insecure_client_takes_any_certificate)
{
    struct nib__tls_info info;

    client = client_engine(
        &(struct nib__tls_client_settings){.insecure = true});
    server = server_engine(&(struct nib__tls_server_settings){
        .certs = pair_cert("other"),
        .cert_count = 1,
        .min_version = NIB__TLS_1_2,
    });
    info = meet(&pair, client, server);
    ck_assert_str_eq(info.server_name, "localhost");
}
END_TEST

START_TEST(a_client_trusts_its_authority_alone)
{
    client = client_engine(&(struct nib__tls_client_settings){
        .ca = pair_file("foreign-ca.pem")});
    server = server_engine(NULL);
    pair_open(&pair, client, server, "localhost");
    ck_assert(!shake_hands(&pair, WHOLE));
    ck_assert_int_eq(pair.client.result, -EPROTO);
    ck_assert_str_ne(nib__session_error(pair.client.session), "");
    ck_assert_int_eq(pair.server.result, -EPROTO);
    ck_assert_str_ne(nib__session_error(pair.server.session), "");
}
END_TEST

START_TEST(the_system_does_not_know_our_authority)
{
    const struct nib__tls_client_settings settings = {.ca = NULL};
    char error[300];

    if (nib__engine_client(&settings, &client, error, sizeof error) < 0)
        return; /* nor any other: no ca-certificates here */
    server = server_engine(NULL);
    pair_open(&pair, client, server, "localhost");
    ck_assert(!shake_hands(&pair, WHOLE));
    ck_assert_int_eq(pair.client.result, -EPROTO);
}
END_TEST

START_TEST(a_name_may_have_255_bytes)
{
    struct nib__session *session;
    char name[257];

    client = client_engine(NULL);
    memset(name, 'n', sizeof name);
    name[256] = '\0';
    ck_assert_int_eq(nib__session_new(client, name, &session), -EINVAL);
    name[255] = '\0';
    ck_assert_int_eq(nib__session_new(client, name, &session), 0);
    nib__session_free(session);
}
END_TEST

/* ---- data ---- */

/* The bytes of a stream by their place. */
static void pattern(uint8_t *p, size_t from, size_t len)
{
    for (size_t i = 0; i < len; i++)
        p[i] = (uint8_t)((from + i) * 31 + ((from + i) >> 8));
}

/* Sends BULK bytes in records of many lengths, which arrive k at a time and
   are read into buffers of many lengths. Returns how many came as they left,
   in order. */
static size_t carry(struct peer *from, struct peer *to, size_t k)
{
    uint8_t out[NIB__TLS_RECORD], in[6000], expected[sizeof in];
    size_t sent = 0, heard = 0, round = 0;
    ssize_t n;

    while (heard < BULK) {
        if (to->in_len == 0 && sent < BULK) {
            size_t len = 1 + sent * 7 % NIB__TLS_RECORD;

            if (len > BULK - sent)
                len = BULK - sent;
            pattern(out, sent, len);
            n = say(from, out, len);
            if (n <= 0)
                return heard;
            sent += (size_t)n;
        }
        if (!arrive(to, k) && !nib__session_pending(to->session) &&
            sent == BULK)
            return heard;
        n = hear(to, in, 1 + round++ * 37 % (sizeof in - 1));
        if (n == NIB__WANT_READ)
            continue;
        if (n <= 0)
            return heard;
        pattern(expected, heard, (size_t)n);
        if (memcmp(in, expected, (size_t)n) != 0)
            return heard;
        heard += (size_t)n;
    }
    return heard;
}

START_TEST(streams_are_exact_however_they_arrive)
{
    if (!nib__engine_has_version(versions[_i]))
        return;
    client = client_engine(
        &(struct nib__tls_client_settings){.max_version = versions[_i]});
    server = server_engine(NULL);
    for (size_t k = 1; k <= 50; k++) {
        pair_open(&pair, client, server, "localhost");
        ck_assert_msg(shake_hands(&pair, k), "%zu at a time", k);
        ck_assert_uint_eq(carry(&pair.client, &pair.server, k), BULK);
        ck_assert_uint_eq(carry(&pair.server, &pair.client, k), BULK);
        ck_assert_int_eq(pair.server.in_len, 0);
        pair_close(&pair);
    }
}
END_TEST

START_TEST(two_records_are_read_in_small_pieces)
{
    uint8_t out[100], in[30], all[200], expected[200];
    size_t len = 0;
    ssize_t n;

    if (!nib__engine_has_version(versions[_i]))
        return;
    meet_in(versions[_i]);
    pattern(expected, 0, 200);
    for (int i = 0; i < 2; i++) {
        pattern(out, (size_t)i * 100, 100);
        ck_assert_int_eq(say(&pair.client, out, 100), 100);
    }
    arrive(&pair.server, WHOLE);
    while ((n = hear(&pair.server, in, sizeof in)) > 0) {
        ck_assert_int_eq(n, len < 180 ? 30 : 20);
        memcpy(all + len, in, (size_t)n);
        len += (size_t)n;
        ck_assert(nib__session_pending(pair.server.session) ||
                  pair.server.in_len > 0 || len == 200);
    }
    ck_assert_int_eq(n, NIB__WANT_READ);
    ck_assert_uint_eq(len, 200);
    ck_assert_mem_eq(all, expected, 200);
    ck_assert(!nib__session_pending(pair.server.session));
}
END_TEST

START_TEST(a_record_holds_16_kb)
{
    static uint8_t out[NIB__TLS_RECORD], in[NIB__TLS_RECORD];
    ssize_t n;

    meet_in(0);
    pattern(out, 0, sizeof out);
    n = say(&pair.server, out, sizeof out);
    /* With TLS 1.3, Mbed TLS puts the type of the content among them. */
    ck_assert(n == NIB__TLS_RECORD || n == NIB__TLS_RECORD - 1);
    ck_assert_uint_le(pair.client.in_len, NIB__TLS_RECORD_ROOM);
    ck_assert_int_eq(hear_all(&pair.client, in, sizeof in), n);
    ck_assert_mem_eq(in, out, (size_t)n);
}
END_TEST

START_TEST(a_close_is_told_after_the_bytes_before_it)
{
    uint8_t in[10];
    size_t made;

    if (!nib__engine_has_version(versions[_i]))
        return;
    meet_in(versions[_i]);
    ck_assert_int_eq(say(&pair.client, "bye", 3), 3);
    ck_assert_int_eq(hang_up(&pair.client), 0);
    made = pair.server.in_len;
    ck_assert_int_eq(hang_up(&pair.client), 0);
    ck_assert_uint_eq(pair.server.in_len, made); /* once */
    pair.server.eof = true;
    arrive(&pair.server, WHOLE);
    ck_assert_int_eq(hear(&pair.server, in, sizeof in), 3);
    ck_assert_mem_eq(in, "bye", 3);
    ck_assert(nib__session_pending(pair.server.session));
    ck_assert_int_eq(hear(&pair.server, in, sizeof in), 0);
    ck_assert(!nib__session_pending(pair.server.session));
    ck_assert_int_eq(hear(&pair.server, in, sizeof in), 0);

    /* The other direction is still open. */
    ck_assert_int_eq(say(&pair.server, "good", 4), 4);
    ck_assert_int_eq(hear_all(&pair.client, in, sizeof in), 4);
    ck_assert_int_eq(hang_up(&pair.server), 0);
    ck_assert_int_eq(hear_all(&pair.client, in, sizeof in), 0);
}
END_TEST

START_TEST(a_cut_is_told_from_a_close)
{
    uint8_t in[10];

    if (!nib__engine_has_version(versions[_i]))
        return;
    meet_in(versions[_i]);
    ck_assert_int_eq(say(&pair.client, "bye", 3), 3);
    ck_assert_int_eq(say(&pair.client, "lost", 4), 4);
    pair.server.in_len -= 1; /* within the second record */
    pair.server.eof = true;
    arrive(&pair.server, WHOLE);
    ck_assert_int_eq(hear(&pair.server, in, sizeof in), 3);
    ck_assert_int_eq(hear(&pair.server, in, sizeof in), NIB__TRUNCATED);
    ck_assert_int_eq(hear(&pair.server, in, sizeof in), NIB__TRUNCATED);

    pair.client.eof = true; /* and between records */
    ck_assert_int_eq(hear(&pair.client, in, sizeof in), NIB__TRUNCATED);
}
END_TEST

START_TEST(nothing_is_written_after_a_close)
{
    size_t made;

    meet_in(0);
    ck_assert_int_eq(hang_up(&pair.client), 0);
    made = pair.server.in_len;
    ck_assert_int_eq(say(&pair.client, "more", 4), -EPROTO);
    ck_assert_uint_eq(pair.server.in_len, made);
}
END_TEST

START_TEST(a_damaged_record_ends_a_session)
{
    uint8_t in[10];

    if (!nib__engine_has_version(versions[_i]))
        return;
    meet_in(versions[_i]);
    ck_assert_int_eq(say(&pair.client, "good", 4), 4);
    ck_assert_int_eq(say(&pair.client, "evil", 4), 4);
    pair.server.in[pair.server.in_off + pair.server.in_len - 1] ^= 1;
    arrive(&pair.server, WHOLE);
    ck_assert_int_eq(hear(&pair.server, in, sizeof in), 4);
    ck_assert_mem_eq(in, "good", 4);
    ck_assert_int_eq(hear(&pair.server, in, sizeof in), -EPROTO);
    ck_assert_str_ne(nib__session_error(pair.server.session), "");
    ck_assert_int_eq(hear(&pair.server, in, sizeof in), -EPROTO);
    ck_assert_int_eq(say(&pair.server, "what", 4), -EPROTO);
    /* The client hears of it by an alert. */
    ck_assert_int_eq(hear_all(&pair.client, in, sizeof in), -EPROTO);
}
END_TEST

/* ---- threads, memory ---- */

static void *talk(void *arg)
{
    struct pair *mine = arg;

    for (int i = 0; i < 20; i++) {
        meet(mine, client, server);
        pair_close(mine);
    }
    return NULL;
}

START_TEST(threads_share_engines)
{
    static struct pair pairs[3];
    pthread_t threads[3];
    struct nib__ticket_keys *keys;
    char error[100];

    ck_assert_int_eq(nib__ticket_keys_new(NULL, &keys, error, sizeof error),
                     0);
    client = client_engine(&(struct nib__tls_client_settings){.resume = true});
    server = server_engine(&(struct nib__tls_server_settings){
        .min_version = NIB__TLS_1_2,
        .keys = keys,
    });
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, talk, &pairs[i]),
                         0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    nib__engine_free(server);
    server = NULL;
    nib__ticket_keys_unref(keys);
}
END_TEST

START_TEST(no_memory_is_an_error)
{
    const struct nib__tls_server_settings settings = {
        .certs = pair_cert("localhost"),
        .cert_count = 1,
        .client_ca = pair_file("client-ca.pem"),
        .verify = NIB__VERIFY_OPTIONAL,
        .min_version = NIB__TLS_1_2,
    };
    struct nib__session *session;
    char error[300];
    int err = -ENOMEM;
    long n;

    nib__alloc_watch(true);
    for (n = 1; err == -ENOMEM; n++) {
        nib__alloc_fail_at(n);
        err = nib__engine_server(&settings, &server, error, sizeof error);
        if (err < 0) {
            ck_assert_int_eq(err, -ENOMEM);
            ck_assert_str_ne(error, "");
            ck_assert_int_eq(nib__alloc_live(), 0);
        }
    }
    ck_assert_int_eq(err, 0);
    ck_assert_int_gt(n, 2);
    nib__alloc_fail_at(1);
    ck_assert_int_eq(nib__session_new(server, NULL, &session), -ENOMEM);
    nib__alloc_fail_at(0);
    nib__engine_free(server);
    server = NULL;
    ck_assert_int_eq(nib__alloc_live(), 0);
    nib__alloc_watch(false);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("tls_engine");
    TCase *tc = tcase_create("handshake");

    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, the_highest_version_is_taken);
    tcase_add_loop_test(tc, a_client_may_have_a_highest_version, 0, VERSIONS);
    tcase_add_test(tc, a_server_may_have_a_least_version);
    tcase_add_loop_test(tc, bytes_may_come_one_at_a_time, 0, VERSIONS);
    tcase_add_test(tc, a_stream_may_end_within_the_handshake);
    tcase_add_loop_test(tc, what_is_not_tls_is_refused, 0, 2);
    tcase_add_test(tc, no_hello_does_harm);
    tcase_add_test(tc, http_1_1_is_agreed_on);
    tcase_add_test(tc, no_other_protocol_is);
    suite_add_tcase(s, tc);

    tc = tcase_create("suites");
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_loop_test(tc, the_server_has_the_choice_of_suites, 0, 3);
    tcase_add_test(tc, an_rsa_certificate_has_its_suites);
    tcase_add_loop_test(tc, each_suite_of_tls_1_3_works, 0, 3);
    tcase_add_test(tc, chacha20_is_first_where_aes_is_slow);
    tcase_add_test(tc, no_suite_in_common_is_said);
    suite_add_tcase(s, tc);

    tc = tcase_create("names");
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, a_server_has_a_certificate_for_each_name);
    tcase_add_test(tc, an_insecure_client_takes_any_certificate);
    tcase_add_test(tc, a_client_trusts_its_authority_alone);
    tcase_add_test(tc, the_system_does_not_know_our_authority);
    tcase_add_test(tc, a_name_may_have_255_bytes);
    suite_add_tcase(s, tc);

    tc = tcase_create("data");
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_loop_test(tc, streams_are_exact_however_they_arrive, 0,
                        VERSIONS);
    tcase_add_loop_test(tc, two_records_are_read_in_small_pieces, 0, VERSIONS);
    tcase_add_test(tc, a_record_holds_16_kb);
    tcase_add_loop_test(tc, a_close_is_told_after_the_bytes_before_it, 0,
                        VERSIONS);
    tcase_add_loop_test(tc, a_cut_is_told_from_a_close, 0, VERSIONS);
    tcase_add_test(tc, nothing_is_written_after_a_close);
    tcase_add_loop_test(tc, a_damaged_record_ends_a_session, 0, VERSIONS);
    suite_add_tcase(s, tc);

    tc = tcase_create("threads, memory");
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, threads_share_engines);
    tcase_add_test(tc, no_memory_is_an_error);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    pair_run(suite());
}
