/*
 * error - result codes inside the library.
 *
 * A result is 0 or a positive count, -errno, or one of nib's own codes from
 * -1000 down. The codes and nib_strerror() are public; who returns them
 * includes this.
 */

#ifndef NIB__BASE_ERROR_H
#define NIB__BASE_ERROR_H

#include <errno.h>

#include "nib.h"

#endif
