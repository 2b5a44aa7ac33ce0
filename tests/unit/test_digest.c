/*
 * test_digest - SHA-1 (RFC 3174, 7.3), base64 (RFC 4648, 10) and the accept
 * key (RFC 6455, 1.3).
 */

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"

static void hex(const uint8_t digest[20], char out[41])
{
    for (size_t i = 0; i < 20; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

static void check_sha1(const void *data, size_t len, const char *expected)
{
    uint8_t digest[20];
    char text[41];

    nib__sha1(data, len, digest);
    hex(digest, text);
    ck_assert_str_eq(text, expected);
}

START_TEST(sha1_vectors)
{
    static char million[1000000];
    char digits[640];

    memset(million, 'a', sizeof(million));
    for (size_t i = 0; i < sizeof(digits); i++)
        digits[i] = (char)('0' + i % 8);

    check_sha1("abc", 3, "a9993e364706816aba3e25717850c26c9cd0d89d");
    check_sha1("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
               "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    check_sha1(million, sizeof(million),
               "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    check_sha1(digits, sizeof(digits),
               "dea356a2cddd90c7a7ecedc5ebb563934f460452");
    check_sha1(NULL, 0, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
}
END_TEST

/* Bytes 3, 10, 17 ... of the two tests over all lengths. */
static void fill(uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)(i * 7 + 3);
}

/*
 * The digests of all lengths from 0 to 299, hashed together: each way to pad
 * is among them. The value was computed by Python's hashlib.
 */
START_TEST(sha1_of_every_length)
{
    uint8_t data[300];
    uint8_t digests[300][20];

    fill(data, sizeof(data));
    for (size_t n = 0; n < 300; n++)
        nib__sha1(data, n, digests[n]);
    check_sha1(digests, sizeof(digests),
               "ca9349a03c700fe25e6c2cde997aa96ac2227d8a");
}
END_TEST

START_TEST(base64_vectors)
{
    static const char *const vectors[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    };
    char out[16];

    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        const char *text = vectors[i][1];

        memset(out, '#', sizeof(out));
        ck_assert_uint_eq(nib__base64(vectors[i][0], i, out), strlen(text));
        ck_assert_str_eq(out, text);
        ck_assert_int_eq(out[strlen(text) + 1], '#');
    }
    ck_assert_uint_eq(nib__base64(NULL, 0, out), 0);
    ck_assert_str_eq(out, "");
}
END_TEST

/* As sha1_of_every_length(), with Python's base64. */
START_TEST(base64_of_every_length)
{
    static char text[300 * 404];
    uint8_t data[300];
    size_t len = 0;

    fill(data, sizeof(data));
    for (size_t n = 0; n < 300; n++) {
        size_t written = nib__base64(data, n, text + len);

        ck_assert_uint_eq(written, 4 * ((n + 2) / 3));
        ck_assert(nib__base64_decoded_length_is(text + len, written, n));
        len += written;
    }
    check_sha1(text, len, "eabdbe99c3d6b51b92bb8bca643f6ffc7f17f0a5");
}
END_TEST

static bool is(const char *s, size_t bytes)
{
    return nib__base64_decoded_length_is(s, strlen(s), bytes);
}

START_TEST(decoded_length_of_a_key)
{
    ck_assert(is("dGhlIHNhbXBsZSBub25jZQ==", 16));
    ck_assert(!is("dGhlIHNhbXBsZSBub25jZQ==", 15));
    ck_assert(!is("dGhlIHNhbXBsZSBub25jZQ==", 17));
    ck_assert(is("AAAAAAAAAAAAAAAAAAAAAA==", 16));
    ck_assert(is("/////////////////////w==", 16));
    ck_assert(is("+++++++++++++++++++++A==", 16));

    ck_assert(!is("", 16));
    ck_assert(!is("dGhlIHNhbXBsZSBub25jZQ", 16));
    ck_assert(!is("dGhlIHNhbXBsZSBub25jZQ=", 16));
    ck_assert(!is("dGhlIHNhbXBsZSBub25jZQ===", 16));
    ck_assert(!is("dGhlIHNhbXBsZSBub25jZQ==AAAA", 16));
    ck_assert(!is("dGhlIHNhbXBsZSBub25jZQA=", 16)); /* 17 bytes */
    ck_assert(!is("dGhlIHNhbXBsZSBub25jZQAA", 16)); /* 18 bytes */
    ck_assert(!is("dGhlIHNhbXBsZSBub25jZ===", 16));
    ck_assert(!is("dGhlIHNhbXBsZSBub25jZR==", 16)); /* unused bit 1 */
    ck_assert(!is("dGhlIHNhbXBsZSBub25jZY==", 16)); /* unused bit 4 */
    ck_assert(!is("dGhlIHNhbXBsZSBub25j-Q==", 16)); /* URL alphabet */
    ck_assert(!is("dGhlIHNhbXBsZSBub25j_Q==", 16));
    ck_assert(!is(" GhlIHNhbXBsZSBub25jZQ==", 16));
    ck_assert(!is("dGhlIHNhbXBsZSBub25jZQ= ", 16));
    ck_assert(!is("dGhl=HNhbXBsZSBub25jZQ==", 16));
}
END_TEST

START_TEST(decoded_length_in_general)
{
    ck_assert(is("", 0));
    ck_assert(!is("AAAA", 0));
    ck_assert(is("AAAA", 3));
    ck_assert(is("AAA=", 2));
    ck_assert(!is("AAB=", 2)); /* unused bit 1 */
    ck_assert(is("AAE=", 2));
    ck_assert(!is("AAAA", SIZE_MAX));
    ck_assert(!is("", SIZE_MAX));
    ck_assert(!nib__base64_decoded_length_is("AA\0A", 4, 3));
}
END_TEST

/* Each byte value as a character: 64 of them are of the alphabet. */
START_TEST(decoded_length_alphabet)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                   "abcdefghijklmnopqrstuvwxyz0123456789+/";

    for (int c = 0; c < 256; c++) {
        char s[4] = {(char)c, 'A', 'A', 'A'};
        bool in = c != 0 && strchr(alphabet, c) != NULL;

        ck_assert_int_eq(nib__base64_decoded_length_is(s, 4, 3), in);
    }
}
END_TEST

static void check_accept(const char *key, const char *expected)
{
    char out[NIB__ACCEPT_KEY_BYTES + 1];

    memset(out, '#', sizeof(out));
    nib__accept_key(key, strlen(key), out);
    ck_assert_uint_eq(strlen(expected), 28);
    ck_assert_str_eq(out, expected);
    ck_assert_int_eq(out[NIB__ACCEPT_KEY_BYTES], '#');
}

START_TEST(accept_keys)
{
    char key[1001];

    check_accept("dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    check_accept("", "Kfh9QIsMVZcl6xEPYxPHzW8SZ8w=");
    memset(key, 'x', 1000);
    key[1000] = '\0';
    check_accept(key, "4HJC4L551QMnEp8N9epJkCtSKYs=");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("digest");
    TCase *tc = tcase_create("digest");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tc, sha1_vectors);
    tcase_add_test(tc, sha1_of_every_length);
    tcase_add_test(tc, base64_vectors);
    tcase_add_test(tc, base64_of_every_length);
    tcase_add_test(tc, decoded_length_of_a_key);
    tcase_add_test(tc, decoded_length_in_general);
    tcase_add_test(tc, decoded_length_alphabet);
    tcase_add_test(tc, accept_keys);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
