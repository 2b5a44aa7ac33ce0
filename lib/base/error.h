/*
 * error - result codes inside the library.
 *
 * A result is 0 or a positive count, -errno, or one of nib's own codes from
 * -1000 down. The own codes and nib_strerror() are public: see nib.h.
 */

#ifndef NIB__BASE_ERROR_H
#define NIB__BASE_ERROR_H

#if defined(__has_include) && __has_include("nib.h")
#include "nib.h"
#else
enum {
    NIB_EPROTO = -1000,
    NIB_ESTATE = -1001,
    NIB_ECONFIG = -1002,
};
const char *nib_strerror(int code);
#endif

#endif
