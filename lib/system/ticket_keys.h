/*
 * ticket_keys - the keys of session tickets (RFC 5077, 4).
 *
 * Shared by all engines of a server, so that a session may be resumed on any
 * thread. Keys of the server's own change by themselves: a new one encrypts
 * from then on, the two before it still decrypt. Keys from a file, which
 * outlive a restart, are the operator's to change. Any thread may use them.
 */
#ifndef NIB_SYSTEM_TICKET_KEYS_H
#define NIB_SYSTEM_TICKET_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NIB__TICKET_NAME = 16,
    NIB__TICKET_LIFE_S = 24 * 3600,        /* of a ticket */
    NIB__TICKET_ROTATE_MS = 12 * 3600 * 1000, /* two of them: a life */
};

/* In a file they stand one after the other, in this order of fields. */
struct nib__ticket_key {
    uint8_t name[NIB__TICKET_NAME];
    uint8_t secret[32]; /* for AES-256 */
    uint8_t mac[32];    /* for HMAC-SHA-256, where that is apart */
};

struct nib__ticket_keys;

/*
 * Makes a set of keys: from a file of 1 to 3 keys of 80 bytes, the first of
 * which encrypts; or, for NULL, of random ones.
 *
 * Returns 0 and sets *out; -EINVAL for a file of another size, the errno of
 * one that cannot be read, or -ENOMEM; with a text in error.
 */
int nib__ticket_keys_new(const char *file, struct nib__ticket_keys **out,
                         char *error, size_t cap);

/* Takes one more reference; returns keys. */
struct nib__ticket_keys *nib__ticket_keys_ref(struct nib__ticket_keys *keys);

/* Gives a reference back; NULL is allowed. They are overwritten in the end. */
void nib__ticket_keys_unref(struct nib__ticket_keys *keys);

/* Copies the key that encrypts now. */
void nib__ticket_key_current(struct nib__ticket_keys *keys,
                             struct nib__ticket_key *key);

/*
 * Copies the key of a name. *current tells whether it is still the one that
 * encrypts; otherwise the ticket should be renewed. False: unknown.
 */
bool nib__ticket_key_find(struct nib__ticket_keys *keys, const uint8_t *name,
                          struct nib__ticket_key *key, bool *current);

#endif
