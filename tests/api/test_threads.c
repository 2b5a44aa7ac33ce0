/*
 * test_threads - who may call what: the thread tags of nib.h.
 *
 * The table of calls.h has every public function with its tag; the header
 * must agree with it. Each [any] function is called on a thread that is
 * neither the owner nor a handler's, while its object lives and after its
 * end. For the [wait] functions see test_waits.
 */
#include "calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct site site;

/* ---- the header ---- */

static char *read_header(void)
{
    const char *source = getenv("NIB_SRCDIR");
    char path[4096], *text = calloc(1, 1 << 20);
    FILE *f;

    snprintf(path, sizeof path, "%s/lib/nib.h", source ? source : ".");
    f = fopen(path, "re");
    if (f == NULL)
        ck_abort_msg("%s: %s", path, strerror(errno));
    ck_assert_uint_lt(fread(text, 1, (1 << 20) - 1, f), (1 << 20) - 1);
    fclose(f);
    return text;
}

/* The last "[tag]" at a line's start in a comment of `len` bytes. */
static void find_tag(const char *comment, size_t len, char *tag, size_t cap)
{
    const char *at = comment, *found = NULL;

    while ((at = strstr(at, "\n * [")) != NULL && at < comment + len) {
        at += strlen("\n * [");
        found = at;
    }
    snprintf(tag, cap, "%.*s", found == NULL ? 0 : (int)strcspn(found, "]"),
             found == NULL ? "" : found);
}

/* The next declaration's name and its comment's tag; NULL: no more. */
static const char *next_function(const char *text, char *name, char *tag,
                                 size_t cap)
{
    const char *at = strstr(text, "\nNIB_API "), *open, *from;
    const char *comment = text;

    if (at == NULL)
        return NULL;
    for (const char *p = text; (p = strstr(p, "/*")) != NULL && p < at; p++)
        comment = p;
    find_tag(comment, (size_t)(at - comment), tag, cap);
    open = strchr(at, '(');
    for (from = open; from[-1] != ' ' && from[-1] != '*'; from--)
        ;
    snprintf(name, cap, "%.*s", (int)(open - from), from);
    return open;
}

START_TEST(the_table_has_every_function_with_its_tag)
{
    char *text = read_header(), name[64], tag[64];
    size_t count = 0;

    for (const char *at = text;
         (at = next_function(at, name, tag, sizeof name)) != NULL; count++) {
        size_t i = 0;

        while (i < row_count && strcmp(rows[i].name, name) != 0)
            i++;
        if (i == row_count)
            ck_abort_msg("%s is not in the table", name);
        if (strcmp(rows[i].tag, tag) != 0)
            ck_abort_msg("%s is [%s] in nib.h", name, tag);
    }
    ck_assert_uint_eq(count, row_count);
    for (size_t i = 0; i < row_count; i++)
        ck_assert_int_eq(rows[i].live != NULL && rows[i].ended != NULL,
                         strcmp(rows[i].tag, "any") == 0);
    free(text);
}
END_TEST

/* ---- [any] on a foreign thread ---- */

static void set_user(struct site *s, struct nib_conn *conn)
{
    nib_conn_set_user(conn, s);
}

static void stage_open(struct stage *st)
{
    char text[1024];
    int len = peer_upgrade_text(text, sizeof text, "/next?a=b",
                                "Sec-WebSocket-Protocol: one, two\r\n");

    *st = (struct stage){.site = &site, .test = gettid()};
    latch_init(&st->ran);
    site_start(&site, NULL);
    site.on_open = set_user;
    st->l = link_callbacks(&site);
    await_written(st->l.conn); /* the 101 */
    st->asking = site_connect(&site);
    st->asking_name = peer_name(st->asking);
    peer_send(st->asking, text, (size_t)len);
    st->req = site_next(&site);
    ck_assert_int_eq(nib_message_new(NIB_TEXT, "text", 4, &st->msg), 0);
}

static void stage_free(struct stage *st)
{
    nib_message_unref(st->msg);
    nib_request_unref(st->req);
    peer_free(st->asking);
    link_free(&st->l);
    site_stop(&site);
}

/* The connection is closed, the request rejected. */
static void stage_end(struct stage *st)
{
    ck_assert_int_eq(nib_reject(st->req, 403, NULL, 0, NULL, 0), 0);
    peer_expect_text(st->asking, "HTTP/1.1 403 Forbidden\r\n");
    peer_half_close(st->asking);
    peer_send_close(st->l.peer, 4001, "bye");
    peer_expect_close(st->l.peer, 4001, "bye");
    peer_expect_end(st->l.peer);
    peer_half_close(st->l.peer);
    site_event(&site, EVENT_CLOSE);
    site_await_connections(&site, 0);
}

struct call {
    void (*run)(struct stage *st);
    struct stage *stage;
};

static int call_job(void *arg)
{
    struct call *c = arg;

    c->run(c->stage);
    return 0;
}

static void call_foreign(void (*run)(struct stage *st), struct stage *st)
{
    struct call c = {run, st};
    struct job job;

    job_start(&job, call_job, &c);
    ck_assert_int_eq(job_wait(&job), 0);
}

START_TEST(a_foreign_thread_may_call_what_any_thread_may)
{
    for (size_t i = 0; i < row_count; i++) {
        struct stage st;

        if (rows[i].live == NULL)
            continue;
        stage_open(&st);
        call_foreign(rows[i].live, &st);
        if (rows[i].after != NULL)
            rows[i].after(&st);
        stage_free(&st);
    }
}
END_TEST

START_TEST(and_after_the_end_of_the_object)
{
    struct stage st;

    stage_open(&st);
    stage_end(&st);
    for (size_t i = 0; i < row_count; i++)
        if (rows[i].ended != NULL && rows[i].ended != request_unref_live &&
            rows[i].ended != stop_ended)
            call_foreign(rows[i].ended, &st);
    call_foreign(request_unref_live, &st);
    nib_server_stop(site.srv, 0);
    ck_assert_int_eq(nib_server_join(site.srv, -1, NULL), 0);
    call_foreign(stop_ended, &st);
    stage_free(&st);
}
END_TEST

/* ---- numbers ---- */

START_TEST(connections_of_two_servers_have_different_numbers)
{
    static struct site other;
    struct link a, b;

    site_start(&site, NULL);
    site_start(&other, NULL);
    a = link_open(&site);
    b = link_open(&other);
    ck_assert_uint_ne(nib_conn_id(a.conn), nib_conn_id(b.conn));
    link_finish(&a);
    link_finish(&b);
    site_stop(&other);
    site_stop(&site);
}
END_TEST

int main(void)
{
    static const struct named_test tests[] = {
        TEST(the_table_has_every_function_with_its_tag),
        TEST(a_foreign_thread_may_call_what_any_thread_may),
        TEST(and_after_the_end_of_the_object),
        TEST(connections_of_two_servers_have_different_numbers),
    };

    return run_tests("threads", tests, COUNT(tests));
}
