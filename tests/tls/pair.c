/*
 * pair - a client's session and a server's, with a wire between them.
 */
#include "tls/pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[512];

const char *pair_folder(void)
{
    const char *build = getenv("NIB_BUILDDIR"), *source = getenv("NIB_SRCDIR");
    char command[1200];

    if (folder[0] != '\0')
        return folder;
    if (build == NULL || source == NULL) {
        fprintf(stderr, "NIB_BUILDDIR and NIB_SRCDIR must be set\n");
        exit(1);
    }
    snprintf(folder, sizeof folder, "%s/certs-XXXXXX", build);
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        exit(1);
    }
    snprintf(command, sizeof command, "sh '%s/tests/tls/certs.sh' '%s'",
             source, folder);
    if (system(command) != 0) {
        fprintf(stderr, "certs.sh failed\n");
        pair_remove();
        exit(1);
    }
    return folder;
}

void pair_remove(void)
{
    char command[600];

    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (folder[0] != '\0' && system(command) != 0)
        perror(folder);
    folder[0] = '\0';
}

const char *pair_file(const char *name)
{
    static char files[8][600];
    static unsigned next;
    char *file = files[next++ % 8];

    snprintf(file, sizeof files[0], "%s/%s", pair_folder(), name);
    return file;
}

const struct nib__tls_cert *pair_cert(const char *name)
{
    static struct nib__tls_cert certs[8];
    static char files[8][2][600];
    static unsigned next;
    unsigned i = next++ % 8;

    snprintf(files[i][0], sizeof files[i][0], "%s/%s.pem", pair_folder(),
             name);
    snprintf(files[i][1], sizeof files[i][1], "%s/%s.key", pair_folder(),
             name);
    certs[i] = (struct nib__tls_cert){
        .chain = files[i][0],
        .key = files[i][1],
    };
    return &certs[i];
}

struct nib__engine *server_engine(const struct nib__tls_server_settings *s)
{
    struct nib__tls_server_settings plain = {.min_version = NIB__TLS_1_2};
    struct nib__engine *engine;
    char error[500] = "";
    int err;

    if (s != NULL)
        plain = *s;
    if (plain.cert_count == 0) {
        plain.certs = pair_cert("localhost");
        plain.cert_count = 1;
    }
    err = nib__engine_server(&plain, &engine, error, sizeof error);
    ck_assert_msg(err == 0, "%d: %s", err, error);
    return engine;
}

struct nib__engine *client_engine(const struct nib__tls_client_settings *s)
{
    struct nib__tls_client_settings plain = {.max_version = 0};
    struct nib__engine *engine;
    char error[500] = "";
    int err;

    if (s != NULL)
        plain = *s;
    if (plain.ca == NULL && !plain.insecure)
        plain.ca = pair_file("ca.pem");
    err = nib__engine_client(&plain, &engine, error, sizeof error);
    ck_assert_msg(err == 0, "%d: %s", err, error);
    return engine;
}

static void open_peer(struct peer *peer, struct peer *other,
                      struct nib__engine *engine, const char *name)
{
    peer->other = other;
    peer->in_off = peer->in_len = peer->arrived = 0;
    peer->eof = false;
    peer->result = NIB__WANT_READ;
    ck_assert_int_eq(nib__session_new(engine, name, &peer->session), 0);
}

void pair_open(struct pair *pair, struct nib__engine *client,
               struct nib__engine *server, const char *name)
{
    open_peer(&pair->client, &pair->server, client, name);
    open_peer(&pair->server, &pair->client, server, NULL);
}

void pair_close(struct pair *pair)
{
    nib__session_free(pair->client.session);
    nib__session_free(pair->server.session);
    pair->client.session = pair->server.session = NULL;
}

bool arrive(struct peer *peer, size_t n)
{
    size_t left = peer->in_len - peer->arrived;

    peer->arrived += n < left ? n : left;
    return left > 0;
}

static struct nib__tls_io io_of(struct peer *peer)
{
    struct peer *other = peer->other;

    return (struct nib__tls_io){
        .in = peer->in + peer->in_off,
        .in_len = peer->arrived,
        .eof = peer->eof && peer->arrived == peer->in_len,
        .out = other->in,
        .out_len = other->in_off + other->in_len,
        .out_cap = sizeof other->in,
    };
}

static void used(struct peer *peer, const struct nib__tls_io *io)
{
    size_t taken = peer->arrived - io->in_len;

    /* No ck_assert(): each writes to a file, and this is for single bytes. */
    if (io->in != peer->in + peer->in_off + taken ||
        io->out_len < peer->other->in_off + peer->other->in_len)
        ck_abort_msg("took %zu, made %zu", taken, io->out_len);
    peer->other->in_len = io->out_len - peer->other->in_off;
    peer->in_len -= taken;
    peer->arrived -= taken;
    peer->in_off = peer->in_len == 0 ? 0 : peer->in_off + taken;
}

int shake(struct peer *peer)
{
    struct nib__tls_io io = io_of(peer);

    peer->result = nib__session_handshake(peer->session, &io);
    used(peer, &io);
    return peer->result;
}

ssize_t hear(struct peer *peer, void *p, size_t cap)
{
    struct nib__tls_io io = io_of(peer);
    ssize_t n = nib__session_read(peer->session, &io, p, cap);

    used(peer, &io);
    return n;
}

ssize_t say(struct peer *peer, const void *p, size_t len)
{
    struct nib__tls_io io = io_of(peer);
    ssize_t n = nib__session_write(peer->session, &io, p, len);

    used(peer, &io);
    return n;
}

int hang_up(struct peer *peer)
{
    struct nib__tls_io io = io_of(peer);
    int n = nib__session_shutdown(peer->session, &io);

    used(peer, &io);
    return n;
}

bool shake_hands(struct pair *pair, size_t n)
{
    bool moved;

    do {
        moved = arrive(&pair->client, n);
        if (pair->client.result == NIB__WANT_READ)
            shake(&pair->client);
        moved |= arrive(&pair->server, n);
        if (pair->server.result == NIB__WANT_READ)
            shake(&pair->server);
        moved |= pair->client.arrived < pair->client.in_len;
    } while (moved && (pair->client.result == NIB__WANT_READ ||
                       pair->server.result == NIB__WANT_READ));
    return pair->client.result == 0 && pair->server.result == 0;
}

/* One says a word, and the other hears it. */
static void tell(struct peer *from, struct peer *to, const char *word)
{
    char heard[10] = "";
    ssize_t len = (ssize_t)strlen(word);

    ck_assert_int_eq(say(from, word, (size_t)len), len);
    arrive(to, WHOLE);
    ck_assert_int_eq(hear(to, heard, sizeof heard), len);
    ck_assert_str_eq(heard, word);
}

ssize_t hear_all(struct peer *peer, void *p, size_t cap)
{
    size_t len = 0;
    ssize_t n;

    arrive(peer, WHOLE);
    do {
        n = hear(peer, (char *)p + len, cap - len);
        if (n > 0)
            len += (size_t)n;
    } while (n > 0 && len < cap);
    return len > 0 ? (ssize_t)len : n;
}

void pair_run(Suite *s)
{
    SRunner *runner = srunner_create(s);
    int failed;

    pair_folder(); /* one for all children */
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    pair_remove();
    exit(failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

struct nib__tls_info meet(struct pair *pair, struct nib__engine *client,
                          struct nib__engine *server)
{
    struct nib__tls_info info, seen;

    pair_open(pair, client, server, "localhost");
    ck_assert_msg(shake_hands(pair, WHOLE), "client: %s; server: %s",
                  nib__session_error(pair->client.session),
                  nib__session_error(pair->server.session));
    tell(&pair->client, &pair->server, "ping");
    tell(&pair->server, &pair->client, "pong");
    nib__session_info(pair->server.session, &info);
    nib__session_info(pair->client.session, &seen);
    ck_assert_str_eq(seen.version, info.version);
    ck_assert_str_eq(seen.cipher, info.cipher);
    ck_assert_int_eq(seen.resumed, info.resumed);
    return info;
}
