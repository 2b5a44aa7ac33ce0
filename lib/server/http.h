/*
 * http - answers to requests, as chunks of text.
 */
#ifndef NIB_SERVER_HTTP_H
#define NIB_SERVER_HTTP_H

#include "server/conn.h"

struct nib__answer {
    int status;
    const struct nib_header *headers;
    size_t header_count;
    const char *extra;  /* further ready lines */
    const void *body;
    size_t body_len;
    bool keep;          /* the connection stays */
    bool head_only;     /* to HEAD: Content-Length without the body */
};

/* Encodes an answer; NULL: no memory. [any] */
struct nib__chunk *nib__answer_new(struct nib__chunk_pool *pool,
                                   const struct nib__answer *a);

/* Encodes and queues an answer; without memory the connection ends. */
void nib__http_answer(struct nib_conn *c, const struct nib__answer *a)
    NIB__OWNER_ONLY;

/* Queues an answer that ends the connection. */
void nib__http_queue(struct nib_conn *c, struct nib__chunk *chunk)
    NIB__OWNER_ONLY;

/* May all of these lines be sent? [any] */
bool nib__headers_valid(const struct nib_header *headers, size_t count);

#endif
