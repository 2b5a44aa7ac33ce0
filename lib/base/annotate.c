/*
 * annotate - the owner's role, as one object.
 *
 * The capability analysis needs something to name. Nothing reads or writes
 * it.
 */
#include "base/annotate.h"

struct nib__role nib__owner;
