/*
 * tls_suites - names and numbers of cipher suites.
 */
#include "system/tls_suites.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

static const struct nib__tls_suite suites[] = {
    {NIB__TLS13_AES_128_GCM, "TLS_AES_128_GCM_SHA256",
     "TLS_AES_128_GCM_SHA256"},
    {NIB__TLS13_AES_256_GCM, "TLS_AES_256_GCM_SHA384",
     "TLS_AES_256_GCM_SHA384"},
    {NIB__TLS13_CHACHA20, "TLS_CHACHA20_POLY1305_SHA256",
     "TLS_CHACHA20_POLY1305_SHA256"},
    {NIB__ECDSA_AES_128_GCM, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
     "ECDHE-ECDSA-AES128-GCM-SHA256"},
    {NIB__ECDSA_AES_256_GCM, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
     "ECDHE-ECDSA-AES256-GCM-SHA384"},
    {NIB__RSA_AES_128_GCM, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
     "ECDHE-RSA-AES128-GCM-SHA256"},
    {NIB__RSA_AES_256_GCM, "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
     "ECDHE-RSA-AES256-GCM-SHA384"},
    {NIB__RSA_CHACHA20, "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
     "ECDHE-RSA-CHACHA20-POLY1305"},
    {NIB__ECDSA_CHACHA20, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
     "ECDHE-ECDSA-CHACHA20-POLY1305"},
};

enum { SUITES = sizeof suites / sizeof suites[0] };

const struct nib__tls_suite *nib__tls_suite(uint16_t number)
{
    for (unsigned i = 0; i < SUITES; i++)
        if (suites[i].number == number)
            return &suites[i];
    return NULL;
}

static bool is_name(const char *name, const char *p, size_t len)
{
    return strlen(name) == len && strncasecmp(name, p, len) == 0;
}

static const struct nib__tls_suite *by_name(const char *p, size_t len)
{
    for (unsigned i = 0; i < SUITES; i++)
        if (is_name(suites[i].name, p, len) ||
            is_name(suites[i].openssl, p, len))
            return &suites[i];
    return NULL;
}

int nib__tls_suites_parse(const char *list, uint16_t *numbers, unsigned room,
                          const char **wrong, size_t *wrong_len)
{
    static const char separators[] = ":, ";
    unsigned count = 0;

    for (list += strspn(list, separators); *list != '\0';
         list += strspn(list, separators)) {
        size_t len = strcspn(list, separators);
        const struct nib__tls_suite *suite = by_name(list, len);

        if (suite == NULL || count == room) {
            *wrong = list;
            *wrong_len = len;
            return -EINVAL;
        }
        numbers[count++] = suite->number;
        list += len;
    }
    return (int)count;
}
