/*
 * tls_suites - the cipher suites that nib speaks: forward secrecy and
 * authenticated encryption, nothing else (RFC 9325, 4.2).
 */
#ifndef NIB_SYSTEM_TLS_SUITES_H
#define NIB_SYSTEM_TLS_SUITES_H

#include <stddef.h>
#include <stdint.h>

/* By the numbers of the wire (RFC 5289, 7905, 8446). */
enum {
    NIB__TLS13_AES_128_GCM = 0x1301,
    NIB__TLS13_AES_256_GCM = 0x1302,
    NIB__TLS13_CHACHA20 = 0x1303,
    NIB__ECDSA_AES_128_GCM = 0xc02b,
    NIB__ECDSA_AES_256_GCM = 0xc02c,
    NIB__RSA_AES_128_GCM = 0xc02f,
    NIB__RSA_AES_256_GCM = 0xc030,
    NIB__RSA_CHACHA20 = 0xcca8,
    NIB__ECDSA_CHACHA20 = 0xcca9,
};

struct nib__tls_suite {
    uint16_t number;
    const char *name;    /* IANA's */
    const char *openssl; /* OpenSSL's, which people know as well */
};

/* The suite of a number, or NULL. */
const struct nib__tls_suite *nib__tls_suite(uint16_t number);

/*
 * Reads a list of names, either kind, separated by ':', ',' or spaces.
 *
 * Returns how many went to numbers[0..room); or -EINVAL, with the first name
 * that is none in *wrong[0..*wrong_len).
 */
int nib__tls_suites_parse(const char *list, uint16_t *numbers, unsigned room,
                          const char **wrong, size_t *wrong_len);

#endif
