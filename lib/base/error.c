/*
 * error - the texts of result codes.
 *
 * nib's own codes, and those errnos that a function of nib.h returns with a
 * meaning of its own, have nib's words; for the rest the C library knows
 * texts that need no buffer. So every text is static.
 */

#include "base/error.h"

#include <stddef.h>
#include <string.h>

static const struct {
    int code;
    const char *text;
} texts[] = {
    {0, "success"},
    {NIB_EPROTO, "the peer broke the protocol"},
    {NIB_ESTATE, "call not allowed in this state"},
    {NIB_ECONFIG, "settings contradict each other"},
    {-EAGAIN, "not possible without waiting"},
    {-EBUSY, "in use by another call"},
    {-ECANCELED, "cancelled, the server stops"},
    {-EDEADLK, "must not wait on this thread"},
    {-EEXIST, "exists already"},
    {-EILSEQ, "text is not UTF-8"},
    {-EINVAL, "invalid argument"},
    {-EMSGSIZE, "larger than the limit"},
    {-ENOENT, "not found"},
    {-ENOMEM, "out of memory"},
    {-EPIPE, "connection is closing or closed"},
    {-ETIMEDOUT, "timed out"},
};

const char *nib_strerror(int code)
{
    const char *text = NULL;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (texts[i].code == code)
            return texts[i].text;
    }
    /* Below -1000 and above 0 there are no errnos; -INT_MIN does not exist. */
    if (code < 0 && code > -1000)
        text = strerrordesc_np(-code);
    return text ? text : "unknown error";
}
