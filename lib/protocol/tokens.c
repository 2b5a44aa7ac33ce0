/*
 * tokens - HTTP's words, and lists of them (RFC 9110, 5.5 and 5.6).
 */
#include "protocol/tokens.h"

#include <string.h>

static const bool token_bytes[256] = {
    ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true,
    ['!'] = true, ['#'] = true, ['$'] = true, ['%'] = true, ['&'] = true,
    ['\''] = true, ['*'] = true, ['+'] = true, ['-'] = true, ['.'] = true,
    ['^'] = true, ['_'] = true, ['`'] = true, ['|'] = true, ['~'] = true,
};

size_t nib__token_span(const char *s, size_t len)
{
    size_t i = 0;

    while (i < len && token_bytes[(unsigned char)s[i]])
        i++;
    return i;
}

bool nib__token_valid(const char *s, size_t len)
{
    return len > 0 && nib__token_span(s, len) == len;
}

bool nib__field_valid(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];

        if ((c < 0x20 && c != '\t') || c == 0x7F)
            return false;
    }
    return true;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

bool nib__same_word(const char *s, size_t len, const char *word)
{
    for (size_t i = 0; i < len; i++) {
        /* The terminator of a shorter word differs from any byte but NUL. */
        if (word[i] == '\0' || lower(s[i]) != lower(word[i]))
            return false;
    }
    return word[len] == '\0';
}

size_t nib__list_next(const char **list, const char **element)
{
    const char *start = *list + strspn(*list, ", \t");
    size_t len = strcspn(start, ",");

    *element = start;
    *list = start + len;
    while (len > 0 && (start[len - 1] == ' ' || start[len - 1] == '\t'))
        len--;
    return len;
}

bool nib__token_list_valid(const char *list)
{
    const char *element;
    size_t len;

    while ((len = nib__list_next(&list, &element)) > 0) {
        if (!nib__token_valid(element, len))
            return false;
    }
    return true;
}

bool nib__token_list_has(const char *list, const char *token, size_t len)
{
    const char *element;
    size_t n;

    while ((n = nib__list_next(&list, &element)) > 0) {
        if (n == len && memcmp(element, token, len) == 0)
            return true;
    }
    return false;
}
