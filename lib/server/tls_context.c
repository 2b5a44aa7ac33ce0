/*
 * tls_context - made whole or not at all, then swapped in.
 */
#include "server/tls_context.h"

#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"

static void context_free(struct nib__tls_context *context)
{
    for (unsigned i = 0; i < context->engine_count; i++)
        nib__engine_free(context->engines[i]);
    nib__ticket_keys_unref(context->keys);
    nib__free(context);
}

void nib__tls_context_unref(struct nib__tls_context *context)
{
    if (context != NULL && atomic_fetch_sub_explicit(
                               &context->refs, 1, memory_order_acq_rel) == 1)
        context_free(context);
}

static int no_memory(char *error, size_t cap)
{
    snprintf(error, cap, "%s", nib_strerror(-ENOMEM));
    return -ENOMEM;
}

static int add_engines(struct nib__tls_context *context, unsigned count,
                       const struct nib_config *cfg, char *error, size_t cap)
{
    const struct nib__tls_config *tls = &cfg->tls;
    struct nib__tls_server_settings settings = {
        .certs = tls->certs,
        .cert_count = tls->cert_count,
        .client_ca = tls->client_ca,
        .verify = (enum nib__tls_verify)tls->verify,
        .min_version = tls->min_version,
        .suites = tls->suites,
        .suite_count = tls->suite_count,
        .keys = context->keys,
    };
    int err = 0;

    while (context->engine_count < count && err == 0) {
        err = nib__engine_server(&settings,
                                 &context->engines[context->engine_count],
                                 error, cap);
        if (err == 0)
            context->engine_count++;
    }
    return err;
}

/* Keys for a new context: those of a file, or the ones used before. */
static int find_keys(struct nib__tls_context *context,
                     struct nib__tls_context *before,
                     const struct nib_config *cfg, char *error, size_t cap)
{
    if (cfg->tls.ticket_keys == NULL && before != NULL) {
        context->keys = nib__ticket_keys_ref(before->keys);
        return 0;
    }
    return nib__ticket_keys_new(cfg->tls.ticket_keys, &context->keys, error,
                                cap);
}

void nib__tls_slot_init(struct nib__tls_slot *slot)
{
    nib__lock_init(&slot->lock);
    slot->context = NULL;
}

void nib__tls_slot_destroy(struct nib__tls_slot *slot)
{
    nib__tls_context_unref(slot->context);
    slot->context = NULL;
    nib__lock_destroy(&slot->lock);
}

int nib__tls_slot_load(struct nib__tls_slot *slot,
                       const struct nib_config *cfg, char *error, size_t cap)
{
    unsigned count = cfg->limits.handshake_threads;
    struct nib__tls_context *before = nib__tls_slot_get(slot);
    struct nib__tls_context *context = nib__alloc_zero(
        sizeof *context + count * sizeof context->engines[0]);
    int err;

    if (context == NULL) {
        nib__tls_context_unref(before);
        return no_memory(error, cap);
    }
    context->refs = 1;
    err = find_keys(context, before, cfg, error, cap);
    if (err == 0)
        err = add_engines(context, count, cfg, error, cap);
    nib__tls_context_unref(before);
    if (err < 0) {
        nib__tls_context_unref(context);
        return err;
    }
    nib__lock_take(&slot->lock);
    before = slot->context;
    slot->context = context;
    nib__lock_release(&slot->lock);
    nib__tls_context_unref(before);
    return 0;
}

struct nib__tls_context *nib__tls_slot_get(struct nib__tls_slot *slot)
{
    struct nib__tls_context *context;

    nib__lock_take(&slot->lock);
    context = slot->context;
    if (context != NULL)
        atomic_fetch_add_explicit(&context->refs, 1, memory_order_relaxed);
    nib__lock_release(&slot->lock);
    return context;
}
