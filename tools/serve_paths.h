/*
 * serve-paths - what 'nib-bench serve' does on each path.
 */
#ifndef NIB_TOOLS_SERVE_PATHS_H
#define NIB_TOOLS_SERVE_PATHS_H

#include "nib.h"

/*
 * Adds the routes of all paths. Returns 0, or the negative code of the first
 * that failed.
 */
int serve_paths_add(struct nib_config *config);

/* Prints the paths and what they do, for --help. */
void serve_paths_explain(void);

#endif
