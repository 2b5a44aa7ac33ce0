/*
 * secure - what a wss:// URL adds to a target.
 */
#include "secure.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "process.h"
#include "system/tls.h"

/* Shared with children, which shake hands as well. */
struct counts {
    _Atomic uint64_t full, resumed;
    _Atomic bool named; /* by the first one, which writes the names */
    char version[16], cipher[64];
};

struct secure {
    struct nib__engine *engine;
    struct nib__tls_client_settings settings;
    struct counts *counts;
    char host[256];
};

bool secure_built(void)
{
#ifdef NIB_TLS
    return true;
#else
    return false;
#endif
}

int secure_new(const struct secure_options *options, const char *host,
               struct secure **out, char *error, size_t cap)
{
    struct secure *s = calloc(1, sizeof(*s));
    int result = -ENOMEM;

    snprintf(error, cap, "%s", strerror(ENOMEM));
    if (!s)
        return result;
    snprintf(s->host, sizeof(s->host), "%s", host);
    s->settings = (struct nib__tls_client_settings){
        .ca = options->ca,
        .insecure = options->insecure,
        .resume = options->resume,
        .max_version = options->max_word == 1 ? NIB__TLS_1_2 : 0,
    };
    s->counts = mmap(NULL, sizeof(*s->counts), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s->counts == MAP_FAILED)
        s->counts = NULL;
    else
        result = nib__engine_client(&s->settings, &s->engine, error, cap);
    if (result < 0) {
        secure_free(s);
        return result;
    }
    *out = s;
    return 0;
}

int secure_forked(struct secure *s, char *error, size_t cap)
{
    nib__engine_free(s->engine);
    s->engine = NULL;
    return nib__engine_client(&s->settings, &s->engine, error, cap);
}

void secure_free(struct secure *s)
{
    if (!s)
        return;
    nib__engine_free(s->engine);
    if (s->counts)
        munmap(s->counts, sizeof(*s->counts));
    free(s);
}

/* Waits for what a step of the handshake wants. 0 or a negative code. */
static int wait_for(int fd, int wanted, uint64_t end_ns)
{
    struct pollfd p = {
        .fd = fd,
        .events = wanted == NIB__WANT_READ ? POLLIN : POLLOUT,
    };
    uint64_t now;
    int n, ms = -1;

    do {
        if (end_ns > 0) {
            now = process_clock_ns();
            if (now >= end_ns)
                return -ETIMEDOUT;
            ms = (int)((end_ns - now) / 1000000 + 1);
        }
        n = poll(&p, 1, ms);
    } while (n == 0 || (n < 0 && errno == EINTR));
    return n < 0 ? -errno : 0;
}

static int shake_hands(struct nib__transport *t, int fd, uint64_t timeout_ms)
{
    for (;;) {
        uint64_t end = 0;
        int result = nib__transport_handshake(t, fd);

        if (result != NIB__WANT_READ && result != NIB__WANT_WRITE)
            return result;
        if (timeout_ms > 0)
            end = process_clock_ns() + timeout_ms * 1000000;
        result = wait_for(fd, result, end);
        if (result < 0)
            return result;
    }
}

static void count(struct counts *counts, const struct nib__transport *t)
{
    struct nib__tls_info info;

    nib__tls_info(t, &info);
    atomic_fetch_add(info.resumed ? &counts->resumed : &counts->full, 1);
    if (atomic_load(&counts->named) || atomic_exchange(&counts->named, true))
        return;
    memcpy(counts->version, info.version, sizeof(counts->version));
    memcpy(counts->cipher, info.cipher, sizeof(counts->cipher));
}

int secure_open(struct secure *s, int fd, uint64_t timeout_ms,
                struct nib__transport **out, char *error, size_t cap)
{
    struct nib__transport *t;
    int result = nib__tls_new(s->engine, s->host, &t);

    if (result < 0)
        return result;
    result = shake_hands(t, fd, timeout_ms);
    if (result == 0) {
        count(s->counts, t);
        *out = t;
        return 0;
    }
    if (result == -EPROTO)
        snprintf(error, cap, "TLS: %s", nib__tls_error(t));
    if (result == NIB__TRUNCATED) {
        result = -EPROTO;
        snprintf(error, cap, "the server ended the TLS handshake");
    }
    nib__transport_free(t);
    return result;
}

void secure_facts(struct secure *s, struct secure_facts *out)
{
    out->full = atomic_load(&s->counts->full);
    out->resumed = atomic_load(&s->counts->resumed);
    memcpy(out->version, s->counts->version, sizeof(out->version));
    memcpy(out->cipher, s->counts->cipher, sizeof(out->cipher));
}
