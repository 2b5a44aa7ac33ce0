/*
 * test_tls_tickets - who may resume which session, and as whom.
 *
 * Client certificates are here as well: a ticket must not get round them. For
 * whichever TLS library is in; each case runs with TLS 1.2 and 1.3.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "system/timer.h"
#include "tls/pair.h"

enum { HOUR_MS = 3600 * 1000 };

static struct pair pair;
static struct nib__ticket_keys *keys;
static unsigned version; /* of this run */

static void setup(int i)
{
    char error[200];

    version = i == 0 ? NIB__TLS_1_2 : NIB__TLS_1_3;
    ck_assert_int_eq(nib__ticket_keys_new(NULL, &keys, error, sizeof error),
                     0);
}

#define TICKET_TEST(name)                                                     \
    static void name##_in(void);                                              \
    START_TEST(name)                                                          \
    {                                                                         \
        setup(_i);                                                            \
        if (nib__engine_has_version(version))                                 \
            name##_in();                                                      \
        nib__ticket_keys_unref(keys);                                         \
    }                                                                         \
    END_TEST                                                                  \
    static void name##_in(void)

/* ---- engines ---- */

/* A client that resumes; cert is the name of its certificate, or NULL. */
static struct nib__engine *new_client(const char *cert)
{
    return client_engine(&(struct nib__tls_client_settings){
        .cert = cert == NULL ? NULL : pair_cert(cert),
        .resume = true,
        .max_version = version,
    });
}

static struct nib__engine *new_server(struct nib__ticket_keys *its_keys,
                                      enum nib__tls_verify verify,
                                      const char *client_ca)
{
    struct nib__tls_cert certs[2];

    certs[0] = *pair_cert("localhost");
    certs[1] = *pair_cert("other");
    return server_engine(&(struct nib__tls_server_settings){
        .certs = certs,
        .cert_count = 2,
        .client_ca = client_ca == NULL ? NULL : pair_file(client_ca),
        .verify = verify,
        .min_version = NIB__TLS_1_2,
        .keys = its_keys,
    });
}

static struct nib__engine *open_server(struct nib__ticket_keys *its_keys)
{
    return new_server(its_keys, NIB__VERIFY_NONE, NULL);
}

/* One connection; was it resumed, and who came by it? */
static bool visit(struct nib__engine *client, struct nib__engine *server,
                  const char *who)
{
    struct nib__tls_info info = meet(&pair, client, server);

    pair_close(&pair);
    ck_assert_str_eq(info.peer_name, who);
    return info.resumed;
}

static bool resumes(struct nib__engine *client, struct nib__engine *server)
{
    return visit(client, server, "");
}

/* Does a client get a new ticket before its own is of no use? */
static bool library_renews(void)
{
    return version == NIB__TLS_1_3 ||
           strncmp(nib__engine_library(), "Mbed", 4) != 0;
}

/* ---- resumption ---- */

TICKET_TEST(a_client_resumes)
{
    struct nib__engine *client = new_client(NULL);
    struct nib__engine *server = open_server(keys);

    ck_assert(!resumes(client, server));
    for (int i = 0; i < 5; i++)
        ck_assert(resumes(client, server));
    nib__engine_free(client);
    nib__engine_free(server);
}

TICKET_TEST(only_if_it_wants_to)
{
    struct nib__engine *client = client_engine(
        &(struct nib__tls_client_settings){.max_version = version});
    struct nib__engine *server = open_server(keys);

    ck_assert(!resumes(client, server));
    ck_assert(!resumes(client, server));
    nib__engine_free(client);
    nib__engine_free(server);
}

TICKET_TEST(only_if_the_server_has_keys)
{
    struct nib__engine *client = new_client(NULL);
    struct nib__engine *server = open_server(NULL);

    ck_assert(!resumes(client, server));
    ck_assert(!resumes(client, server));
    nib__engine_free(client);
    nib__engine_free(server);
}

TICKET_TEST(engines_that_share_keys_share_sessions)
{
    struct nib__engine *client = new_client(NULL);
    struct nib__engine *first = open_server(keys), *second = open_server(keys);

    ck_assert(!resumes(client, first));
    ck_assert(resumes(client, second));
    ck_assert(resumes(client, first));
    nib__engine_free(client);
    nib__engine_free(first);
    nib__engine_free(second);
}

TICKET_TEST(engines_with_other_keys_do_not)
{
    struct nib__engine *client = new_client(NULL);
    struct nib__engine *first = open_server(keys), *second;
    struct nib__ticket_keys *others;
    char error[200];

    ck_assert_int_eq(nib__ticket_keys_new(NULL, &others, error, sizeof error),
                     0);
    second = open_server(others);
    ck_assert(!resumes(client, first));
    ck_assert(!resumes(client, second));
    ck_assert(resumes(client, second));
    nib__engine_free(client);
    nib__engine_free(first);
    nib__engine_free(second);
    nib__ticket_keys_unref(others);
}

/* A resumed session does not show the certificate, so the client must not
   take one server for another. */
TICKET_TEST(a_session_is_for_one_name)
{
    struct nib__engine *client = new_client(NULL);
    struct nib__engine *server = open_server(keys);
    struct nib__tls_info info;

    ck_assert(!resumes(client, server));
    pair_open(&pair, client, server, "other.example");
    ck_assert(shake_hands(&pair, WHOLE));
    nib__session_info(pair.server.session, &info);
    ck_assert(!info.resumed);
    pair_close(&pair);
    nib__engine_free(client);
    nib__engine_free(server);
}

/* ---- keys that change ---- */

TICKET_TEST(a_ticket_outlives_a_change_of_keys)
{
    struct nib__engine *client = new_client(NULL);
    struct nib__engine *server = open_server(keys);

    ck_assert(!resumes(client, server));
    nib__clock_advance_ms(13 * HOUR_MS);
    ck_assert(resumes(client, server)); /* under the key before */
    ck_assert(resumes(client, server));
    nib__engine_free(client);
    nib__engine_free(server);
}

static bool has_ticket_of(const struct peer *peer,
                          const struct nib__ticket_key *key)
{
    return memmem(peer->in + peer->in_off, peer->in_len, key->name,
                  sizeof key->name) != NULL;
}

/* The ticket in a client's hello, which has its key's name in clear. */
TICKET_TEST(a_ticket_is_renewed_under_the_new_key)
{
    struct nib__engine *client = new_client(NULL);
    struct nib__engine *server = open_server(keys);
    struct nib__ticket_key before, after;

    ck_assert(!resumes(client, server));
    nib__ticket_key_current(keys, &before);
    nib__clock_advance_ms(13 * HOUR_MS);
    nib__ticket_key_current(keys, &after);
    ck_assert(resumes(client, server));

    pair_open(&pair, client, server, "localhost");
    shake(&pair.client);
    ck_assert_int_eq(has_ticket_of(&pair.server, &after), library_renews());
    ck_assert_int_eq(has_ticket_of(&pair.server, &before), !library_renews());
    pair_close(&pair);
    nib__engine_free(client);
    nib__engine_free(server);
}

TICKET_TEST(a_ticket_does_not_outlive_its_key)
{
    struct nib__engine *client = new_client(NULL);
    struct nib__engine *server = open_server(keys);
    struct nib__ticket_key key;

    ck_assert(!resumes(client, server));
    for (int i = 0; i < 3; i++) {
        nib__clock_advance_ms(13 * HOUR_MS);
        nib__ticket_key_current(keys, &key);
    }
    ck_assert(!resumes(client, server));
    ck_assert(resumes(client, server));
    nib__engine_free(client);
    nib__engine_free(server);
}

/* ---- keys from a file ---- */

/* Keys of which each has one byte repeated. */
static struct nib__ticket_keys *keys_of(const char *bytes)
{
    struct nib__ticket_keys *made;
    struct nib__ticket_key key;
    char error[700];
    const char *name = pair_file("keys");
    FILE *file = fopen(name, "wb");

    ck_assert_ptr_nonnull(file);
    for (; *bytes != '\0'; bytes++) {
        memset(&key, *bytes, sizeof key);
        ck_assert_uint_eq(fwrite(&key, sizeof key, 1, file), 1);
    }
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(nib__ticket_keys_new(name, &made, error, sizeof error),
                     0);
    return made;
}

/* Does a server with some keys resume what one with others began? */
static bool survives(const char *before, const char *after)
{
    struct nib__ticket_keys *old = keys_of(before), *new = keys_of(after);
    struct nib__engine *client = new_client(NULL);
    struct nib__engine *first = open_server(old), *second = open_server(new);
    bool resumed;

    ck_assert(!resumes(client, first));
    resumed = resumes(client, second);
    nib__engine_free(client);
    nib__engine_free(first);
    nib__engine_free(second);
    nib__ticket_keys_unref(old);
    nib__ticket_keys_unref(new);
    return resumed;
}

TICKET_TEST(a_file_outlives_a_restart)
{
    ck_assert(survives("a", "a"));
    ck_assert(survives("a", "ba"));
    ck_assert(survives("a", "cba"));
    ck_assert(!survives("a", "dcb"));
    ck_assert(!survives("ab", "b")); /* the first encrypts */
}

TICKET_TEST(a_ticket_is_good_for_a_day)
{
    struct nib__ticket_keys *lasting = keys_of("k");
    struct nib__engine *client = new_client(NULL);
    struct nib__engine *server = open_server(lasting);

    ck_assert(!resumes(client, server));
    nib__clock_advance_ms(23 * HOUR_MS);
    ck_assert(resumes(client, server));
    nib__clock_advance_ms(25 * HOUR_MS);
    ck_assert(!resumes(client, server));
    nib__engine_free(client);
    nib__engine_free(server);
    nib__ticket_keys_unref(lasting);
}

/* ---- client certificates ---- */

struct guest {
    enum nib__tls_verify verify;
    const char *cert;
    const char *who; /* NULL: refused */
};

static const struct guest guests[] = {
    {NIB__VERIFY_NONE, NULL, ""},
    {NIB__VERIFY_NONE, "client", ""},
    {NIB__VERIFY_NONE, "foreign", ""},
    {NIB__VERIFY_OPTIONAL, NULL, ""},
    {NIB__VERIFY_OPTIONAL, "client", "Alice"},
    {NIB__VERIFY_OPTIONAL, "mail", "bob@other.example"},
    {NIB__VERIFY_OPTIONAL, "foreign", NULL},
    {NIB__VERIFY_OPTIONAL, "misuse", NULL},
    {NIB__VERIFY_REQUIRED, NULL, NULL},
    {NIB__VERIFY_REQUIRED, "client", "Alice"},
    {NIB__VERIFY_REQUIRED, "mail", "bob@other.example"},
    {NIB__VERIFY_REQUIRED, "foreign", NULL},
    {NIB__VERIFY_REQUIRED, "misuse", NULL},
};

/* With TLS 1.3 a client has done its part before the server judges it. */
static void be_refused(struct nib__engine *client, struct nib__engine *server)
{
    uint8_t in[10];

    pair_open(&pair, client, server, "localhost");
    ck_assert(!shake_hands(&pair, WHOLE));
    ck_assert_int_eq(pair.server.result, -EPROTO);
    ck_assert_str_ne(nib__session_error(pair.server.session), "");
    if (pair.client.result == 0)
        ck_assert_int_eq(hear_all(&pair.client, in, sizeof in), -EPROTO);
    else
        ck_assert_int_eq(pair.client.result, -EPROTO);
    ck_assert_str_ne(nib__session_error(pair.client.session), "");
    pair_close(&pair);
}

TICKET_TEST(guests_are_known_and_known_again)
{
    for (size_t i = 0; i < sizeof guests / sizeof guests[0]; i++) {
        const struct guest *guest = &guests[i];
        struct nib__engine *client = new_client(guest->cert);
        struct nib__engine *server =
            new_server(keys, guest->verify, "client-ca.pem");

        for (int again = 0; again < 3; again++)
            if (guest->who == NULL)
                be_refused(client, server);
            else
                ck_assert_int_eq(visit(client, server, guest->who), again > 0);
        nib__engine_free(client);
        nib__engine_free(server);
    }
}

TICKET_TEST(a_missing_certificate_is_said)
{
    struct nib__engine *client = new_client(NULL);
    struct nib__engine *server =
        new_server(keys, NIB__VERIFY_REQUIRED, "client-ca.pem");

    pair_open(&pair, client, server, "localhost");
    ck_assert(!shake_hands(&pair, WHOLE));
    ck_assert_str_eq(nib__session_error(pair.server.session),
                     "no client certificate");
    pair_close(&pair);
    nib__engine_free(client);
    nib__engine_free(server);
}

/* The same client, with the same certificate, at two servers with the same
   keys: does the second resume what the first began? */
static void move(enum nib__tls_verify from, const char *from_ca,
                 enum nib__tls_verify to, const char *to_ca,
                 bool expected)
{
    struct nib__engine *client = new_client("client");
    struct nib__engine *first = new_server(keys, from, from_ca);
    struct nib__engine *second = new_server(keys, to, to_ca);
    const char *who = from == NIB__VERIFY_NONE ? "" : "Alice";

    ck_assert(!visit(client, first, who));
    ck_assert(visit(client, first, who));
    who = to == NIB__VERIFY_NONE ? "" : "Alice";
    ck_assert_int_eq(visit(client, second, who), expected);
    nib__engine_free(client);
    nib__engine_free(first);
    nib__engine_free(second);
}

TICKET_TEST(a_ticket_is_bound_to_the_rules)
{
    const char *ca = "client-ca.pem";

    move(NIB__VERIFY_REQUIRED, ca, NIB__VERIFY_REQUIRED, ca, true);
    move(NIB__VERIFY_OPTIONAL, ca, NIB__VERIFY_OPTIONAL, ca, true);
    move(NIB__VERIFY_NONE, NULL, NIB__VERIFY_NONE, NULL, true);
    move(NIB__VERIFY_OPTIONAL, ca, NIB__VERIFY_REQUIRED, ca, false);
    move(NIB__VERIFY_REQUIRED, ca, NIB__VERIFY_OPTIONAL, ca, false);
    move(NIB__VERIFY_NONE, NULL, NIB__VERIFY_REQUIRED, ca, false);
    move(NIB__VERIFY_NONE, NULL, NIB__VERIFY_OPTIONAL, ca, false);
    move(NIB__VERIFY_REQUIRED, ca, NIB__VERIFY_NONE, NULL, false);
    move(NIB__VERIFY_REQUIRED, "both-ca.pem", NIB__VERIFY_REQUIRED, ca,
         false);
}

/* Who came in by another authority's word stays out. */
TICKET_TEST(a_ticket_does_not_get_round_an_authority)
{
    struct nib__engine *client = new_client("foreign");
    struct nib__engine *first =
        new_server(keys, NIB__VERIFY_REQUIRED, "foreign-ca.pem");
    struct nib__engine *second =
        new_server(keys, NIB__VERIFY_REQUIRED, "client-ca.pem");
    struct nib__engine *third =
        new_server(keys, NIB__VERIFY_OPTIONAL, "client-ca.pem");

    ck_assert(!visit(client, first, "Alice"));
    ck_assert(visit(client, first, "Alice"));
    be_refused(client, second);
    be_refused(client, third);
    nib__engine_free(client);
    nib__engine_free(first);
    nib__engine_free(second);
    nib__engine_free(third);
}

static Suite *suite(void)
{
    Suite *s = suite_create("tls_tickets");
    TCase *tc = tcase_create("tickets");

    tcase_add_loop_test(tc, a_client_resumes, 0, 2);
    tcase_add_loop_test(tc, only_if_it_wants_to, 0, 2);
    tcase_add_loop_test(tc, only_if_the_server_has_keys, 0, 2);
    tcase_add_loop_test(tc, engines_that_share_keys_share_sessions, 0, 2);
    tcase_add_loop_test(tc, engines_with_other_keys_do_not, 0, 2);
    tcase_add_loop_test(tc, a_session_is_for_one_name, 0, 2);
    suite_add_tcase(s, tc);

    tc = tcase_create("keys");
    tcase_add_loop_test(tc, a_ticket_outlives_a_change_of_keys, 0, 2);
    tcase_add_loop_test(tc, a_ticket_is_renewed_under_the_new_key, 0, 2);
    tcase_add_loop_test(tc, a_ticket_does_not_outlive_its_key, 0, 2);
    tcase_add_loop_test(tc, a_file_outlives_a_restart, 0, 2);
    tcase_add_loop_test(tc, a_ticket_is_good_for_a_day, 0, 2);
    suite_add_tcase(s, tc);

    tc = tcase_create("client certificates");
    tcase_add_loop_test(tc, guests_are_known_and_known_again, 0, 2);
    tcase_add_loop_test(tc, a_missing_certificate_is_said, 0, 2);
    tcase_add_loop_test(tc, a_ticket_is_bound_to_the_rules, 0, 2);
    tcase_add_loop_test(tc, a_ticket_does_not_get_round_an_authority, 0, 2);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    pair_run(suite());
}
