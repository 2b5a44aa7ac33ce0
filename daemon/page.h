/*
 * page - the chat page that is built in.
 */
#ifndef NIB_DAEMON_PAGE_H
#define NIB_DAEMON_PAGE_H

#include <stddef.h>

struct nib_request;

/* The bytes of page.html; made from it when nibd is built. */
extern const char page_html[];
extern const size_t page_html_bytes;

/* Answers a plain request by the page; a nib_http_fn. */
void page_respond(struct nib_request *req, void *arg);

#endif
