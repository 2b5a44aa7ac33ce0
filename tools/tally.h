/*
 * tally - counts the messages in a stream of a server's frames.
 *
 * For loads at which a call for each message would measure the client: small
 * frames are counted in a loop of a few instructions, whole buffers at a
 * time; whatever else comes goes through the library's frame decoder. No
 * I/O. It can also check that the messages are those of nib-bench's /seq.
 */
#ifndef NIB_TOOLS_TALLY_H
#define NIB_TOOLS_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/frame.h"

enum {
    TALLY_DIGITS = 10, /* the number that a checked message begins with */
    TALLY_HELD_MAX = NIB__HEADER_MAX + NIB__CONTROL_MAX,
};

enum tally_result {
    TALLY_MORE,    /* all used that can be */
    TALLY_CONTROL, /* a ping, pong or Close came */
    TALLY_ERROR,   /* not what it should be: see error; feed no more */
};

struct tally {
    uint64_t messages;  /* whole ones */
    uint64_t bytes;     /* of payload, of all data frames */
    uint64_t remaining; /* payload of the current frame to come */
    uint64_t offset;    /* payload of the current message that has come */
    bool in_message;    /* its last frame is yet to come */
    bool fin;           /* the current frame is its last */
    bool verify;        /* check each message against its number */
    uint64_t size;      /* verify: bytes of each message */
    char error[128];
};

/* Starts a count without a check; set verify and size for one. */
void tally_init(struct tally *t);

/*
 * Takes bytes from p[0..n) up to the first control frame, that included, and
 * says in *used how many. What is not used after TALLY_MORE, at most
 * TALLY_HELD_MAX bytes, is to be handed in again with more behind it.
 *
 * control  after TALLY_CONTROL: its header, with the payload in *payload,
 *          which points into p
 */
enum tally_result tally_feed(struct tally *t, const uint8_t *p, size_t n,
                             size_t *used, struct nib__frame *control,
                             const uint8_t **payload);

#endif
