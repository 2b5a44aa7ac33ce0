/*
 * test_tls_settings - what an engine refuses, and how it says so.
 *
 * For whichever TLS library is in: an operator reads the same from each.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "system/tls_suites.h"
#include "tls/pair.h"

static const struct nib__tls_server_settings plain = {
    .cert_count = 1,
    .min_version = NIB__TLS_1_2,
};

static int make(const struct nib__tls_server_settings *settings, char *error,
                size_t cap)
{
    struct nib__engine *engine = NULL;
    int err;

    error[0] = '\0';
    err = nib__engine_server(settings, &engine, error, cap);
    if (err == 0)
        nib__engine_free(engine);
    return err;
}

static void refuses(const struct nib__tls_server_settings *settings, int err,
                    const char *text)
{
    char error[1500];

    ck_assert_int_eq(make(settings, error, sizeof error), err);
    ck_assert_str_eq(error, text);
}

/* Files of the folder, by the names that texts have. */
struct refusal {
    const char *chain, *key, *password;
    int err;
    const char *file; /* which the text names */
    const char *what;
};

static const struct refusal refusals[] = {
    {"none.pem", "localhost.key", NULL, -ENOENT, "none.pem",
     "not found"},
    {"localhost.pem", "none.key", NULL, -ENOENT, "none.key",
     "not found"},
    {"", "localhost.key", NULL, -EISDIR, "", "Is a directory"},
    {"localhost.pem", "", NULL, -EISDIR, "", "Is a directory"},
    {"localhost.key", "localhost.key", NULL, -EINVAL, "localhost.key",
     "no certificate"},
    {"empty", "localhost.key", NULL, -EINVAL, "empty", "no certificate"},
    {"localhost.pem", "localhost.pem", NULL, -EINVAL, "localhost.pem",
     "no private key"},
    {"localhost.pem", "empty", NULL, -EINVAL, "empty", "no private key"},
    {"localhost.pem", NULL, NULL, -EINVAL, "localhost.pem", "no private key"},
    {"localhost.pem", "locked.key", NULL, -EINVAL, "locked.key",
     "needs a password"},
    {"localhost.pem", "locked.key", "Secret", -EINVAL, "locked.key",
     "wrong password"},
    {"localhost.pem", "locked.key", "secret", 0, NULL, ""},
    {"whole.pem", NULL, NULL, 0, NULL, ""},
    {"expired.pem", "expired.key", NULL, -EINVAL, "expired.pem",
     "certificate has expired"},
    {"future.pem", "future.key", NULL, -EINVAL, "future.pem",
     "certificate is not valid yet"},
    {"rsa.pem", "rsa.key", NULL, 0, NULL, ""},
};

enum { REFUSALS = sizeof refusals / sizeof refusals[0] };

START_TEST(each_file_is_judged)
{
    const struct refusal *r = &refusals[_i];
    struct nib__tls_server_settings settings = plain;
    struct nib__tls_cert cert = {
        .chain = pair_file(r->chain),
        .key = r->key == NULL ? NULL : pair_file(r->key),
        .password = r->password,
    };
    char text[1400] = "";

    fclose(fopen(pair_file("empty"), "w"));
    settings.certs = &cert;
    if (r->file != NULL)
        snprintf(text, sizeof text, "%s: %s", pair_file(r->file), r->what);
    refuses(&settings, r->err, text);
}
END_TEST

START_TEST(a_key_must_be_the_certificates)
{
    static const char *const keys[] = {"other.key", "rsa.key"};
    struct nib__tls_server_settings settings = plain;
    struct nib__tls_cert cert = {
        .chain = pair_file("localhost.pem"),
        .key = pair_file(keys[_i]),
    };
    char text[1400];

    settings.certs = &cert;
    snprintf(text, sizeof text, "%s: not the key of %s", cert.key, cert.chain);
    refuses(&settings, -EINVAL, text);
}
END_TEST

/* Each library has words of its own for damage. */
START_TEST(damage_is_named_by_its_file)
{
    static const char *const files[][2] = {
        {"damaged.pem", "localhost.key"},
        {"localhost.pem", "damaged.key"},
    };
    const char *named = pair_file(files[_i][_i]);
    struct nib__tls_server_settings settings = plain;
    struct nib__tls_cert cert = {
        .chain = pair_file(files[_i][0]),
        .key = pair_file(files[_i][1]),
    };
    char error[1500];

    settings.certs = &cert;
    ck_assert_int_eq(make(&settings, error, sizeof error), -EINVAL);
    ck_assert_msg(strncmp(error, named, strlen(named)) == 0 &&
                      strncmp(error + strlen(named), ": ", 2) == 0,
                  "%s", error);
}
END_TEST

START_TEST(every_certificate_counts)
{
    struct nib__tls_server_settings settings = plain;
    struct nib__tls_cert certs[2];
    char text[700];

    certs[0] = *pair_cert("localhost");
    certs[1] = *pair_cert("expired");
    settings.certs = certs;
    settings.cert_count = 2;
    snprintf(text, sizeof text, "%s: certificate has expired",
             pair_file("expired.pem"));
    refuses(&settings, -EINVAL, text);
}
END_TEST

START_TEST(a_server_has_a_certificate)
{
    struct nib__tls_server_settings settings = plain;

    settings.cert_count = 0;
    refuses(&settings, -EINVAL, "TLS: no certificate");
}
END_TEST

START_TEST(verifying_clients_takes_an_authority)
{
    struct nib__tls_server_settings settings = plain;
    char text[700];

    settings.certs = pair_cert("localhost");
    settings.verify = _i == 0 ? NIB__VERIFY_OPTIONAL : NIB__VERIFY_REQUIRED;
    refuses(&settings, -EINVAL, "TLS: no client CA");

    settings.client_ca = pair_file("none.pem");
    snprintf(text, sizeof text, "%s: not found",
             settings.client_ca);
    refuses(&settings, -ENOENT, text);

    settings.client_ca = pair_file("client-ca.key");
    snprintf(text, sizeof text, "%s: no certificate", settings.client_ca);
    refuses(&settings, -EINVAL, text);

    settings.client_ca = pair_file("both-ca.pem");
    refuses(&settings, 0, "");
}
END_TEST

START_TEST(a_version_that_is_not_there_is_refused)
{
    struct nib__tls_server_settings settings = plain;
    char text[200];

    settings.certs = pair_cert("localhost");
    settings.min_version = NIB__TLS_1_3;
    snprintf(text, sizeof text, "TLS: %s does not speak TLS 1.3",
             nib__engine_library());
    if (nib__engine_has_version(NIB__TLS_1_3))
        refuses(&settings, 0, "");
    else
        refuses(&settings, -EINVAL, text);
}
END_TEST

START_TEST(a_version_needs_a_suite)
{
    static const uint16_t of_12[] = {NIB__ECDSA_CHACHA20},
                          of_13[] = {NIB__TLS13_CHACHA20};
    bool has_13 = nib__engine_has_version(NIB__TLS_1_3);
    struct nib__tls_server_settings settings = plain;

    settings.certs = pair_cert("localhost");
    settings.suite_count = 1;
    settings.suites = of_13;
    if (has_13)
        refuses(&settings, 0, "");
    else
        refuses(&settings, -EINVAL, "TLS: no cipher suite");
    settings.suites = of_12;
    refuses(&settings, 0, "");
    settings.min_version = NIB__TLS_1_3;
    if (has_13)
        refuses(&settings, -EINVAL, "TLS: no cipher suite");
}
END_TEST

START_TEST(a_client_is_judged_as_well)
{
    struct nib__tls_client_settings settings = {.ca = pair_file("none.pem")};
    struct nib__engine *engine;
    char error[700], text[700];

    snprintf(text, sizeof text, "%s: not found", settings.ca);
    ck_assert_int_eq(
        nib__engine_client(&settings, &engine, error, sizeof error), -ENOENT);
    ck_assert_str_eq(error, text);

    settings.ca = pair_file("ca.key");
    snprintf(text, sizeof text, "%s: no certificate", settings.ca);
    ck_assert_int_eq(
        nib__engine_client(&settings, &engine, error, sizeof error), -EINVAL);
    ck_assert_str_eq(error, text);

    settings.ca = pair_file("ca.pem");
    settings.cert = pair_cert("late");
    snprintf(text, sizeof text, "%s: certificate has expired",
             pair_file("late.pem"));
    ck_assert_int_eq(
        nib__engine_client(&settings, &engine, error, sizeof error), -EINVAL);
    ck_assert_str_eq(error, text);
}
END_TEST

START_TEST(a_text_is_cut_to_its_room)
{
    struct nib__tls_server_settings settings = plain;
    struct nib__tls_cert cert = {.chain = "/none", .key = "/none"};
    char error[10];

    settings.certs = &cert;
    ck_assert_int_eq(make(&settings, error, sizeof error), -ENOENT);
    ck_assert_str_eq(error, "/none: no");
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("tls_settings");
    TCase *tc = tcase_create("settings");

    tcase_add_loop_test(tc, each_file_is_judged, 0, REFUSALS);
    tcase_add_loop_test(tc, a_key_must_be_the_certificates, 0, 2);
    tcase_add_loop_test(tc, damage_is_named_by_its_file, 0, 2);
    tcase_add_test(tc, every_certificate_counts);
    tcase_add_test(tc, a_server_has_a_certificate);
    tcase_add_loop_test(tc, verifying_clients_takes_an_authority, 0, 2);
    tcase_add_test(tc, a_version_that_is_not_there_is_refused);
    tcase_add_test(tc, a_version_needs_a_suite);
    tcase_add_test(tc, a_client_is_judged_as_well);
    tcase_add_test(tc, a_text_is_cut_to_its_room);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    pair_run(suite());
}
