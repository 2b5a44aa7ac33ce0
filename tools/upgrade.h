/*
 * upgrade - the client's half of the opening handshake (RFC 6455, 4.1).
 *
 * Texts only, no I/O: the request, made once and good for any number of
 * connections, and the judgement on an answer.
 */
#ifndef NIB_TOOLS_UPGRADE_H
#define NIB_TOOLS_UPGRADE_H

#include <stddef.h>

#include "base/digest.h"
#include "nib.h"
#include "url.h"

struct upgrade {
    char *request; /* owned */
    size_t request_len;
    char accept[NIB__ACCEPT_KEY_BYTES]; /* what the answer must have */
    const char *subprotocols; /* those offered, or NULL; the caller's */
};

/* What an answer said. */
struct upgrade_answer {
    int status;           /* 0: no answer was understood */
    char reason[64];      /* the rest of the status line, printable */
    char subprotocol[64]; /* "" if none was chosen */
};

/*
 * Makes a request with a random key for `url`, which it copies.
 *
 * subprotocols  offered, "a, b", or NULL; must live as long as the upgrade
 * headers       further lines, valid by nib__header_valid(); a Host among
 *               them replaces the URL's
 *
 * Returns 0, to be freed by upgrade_free(); -EINVAL for subprotocols that
 * are no token list; -ENOMEM.
 */
int upgrade_init(struct upgrade *u, const struct url *url,
                 const char *subprotocols, const struct nib_header *headers,
                 size_t count);

/* Frees what an upgrade holds; a zeroed one is allowed. */
void upgrade_free(struct upgrade *u);

/*
 * Judges the head of an answer, head[0..len) from the status line to the
 * empty line, both included.
 *
 * Returns 0 if it opens the connection; else -EPROTO with a static text in
 * *wrong: out->status tells a refusal (not 101) from a faulty answer (101).
 */
int upgrade_check(const struct upgrade *u, const char *head, size_t len,
                  struct upgrade_answer *out, const char **wrong);

#endif
