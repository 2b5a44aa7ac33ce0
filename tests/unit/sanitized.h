/*
 * sanitized - which sanitizer a test is built with.
 *
 * For the number of rounds of a stress test, and for the few things that a
 * sanitizer does to a program.
 */

#ifndef NIB__TESTS_UNIT_SANITIZED_H
#define NIB__TESTS_UNIT_SANITIZED_H

/* gcc has macros, clang has features, newer gcc both. */
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZED 1
#elif __has_feature(address_sanitizer)
#define ADDRESS_SANITIZED 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZED 1
#elif defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZED 1
#endif

#ifndef THREAD_SANITIZED
#define THREAD_SANITIZED 0
#endif
#ifndef ADDRESS_SANITIZED
#define ADDRESS_SANITIZED 0
#endif

#define SANITIZED (THREAD_SANITIZED || ADDRESS_SANITIZED)

#endif
