/*
 * socket - addresses, listening, accepting, options.
 *
 * An address is parsed once, into a struct address, for checking and for
 * listening alike. What went wrong is told as a code and as a text that
 * starts with the address, because an administrator reads it.
 */
#include "system/socket.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"

enum {
    HOST_BYTES = 256, /* a DNS name, or an IPv6 address and its zone */
    PATH_BYTES = sizeof(((struct sockaddr_un *)0)->sun_path),
    HIGHEST_PORT = 65535,
};

enum kind {
    TCP,
    UNIX_PATH,
    UNIX_ABSTRACT,
    INHERITED,
};

struct address {
    enum kind kind;
    char host[HOST_BYTES]; /* TCP; without brackets */
    bool brackets;         /* the host is an IPv6 address */
    unsigned port;         /* TCP */
    const char *path;      /* unix; abstract: the name without its @ */
    int fd;                /* INHERITED */
};

union any_address {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct sockaddr_un un;
    struct sockaddr_storage storage;
};

/* ---- parsing ----------------------------------------------------------- */

/* Digits only, up to `most`; returns false for anything else. */
static bool parse_number(const char *text, unsigned most, unsigned *number)
{
    uint64_t n = 0;

    if (*text == '\0')
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        n = n * 10 + (unsigned)(*text - '0');
        if (n > most)
            return false;
    }
    *number = (unsigned)n;
    return true;
}

/* Is it an IPv6 address, perhaps with a zone? */
static bool is_ipv6(const char *host)
{
    char bare[HOST_BYTES];
    struct in6_addr ignored;
    size_t len = strcspn(host, "%");

    memcpy(bare, host, len);
    bare[len] = '\0';
    if (host[len] == '%' && host[len + 1] == '\0')
        return false;
    return inet_pton(AF_INET6, bare, &ignored) == 1;
}

/* HOST:PORT. Returns NULL or what was expected, as all of these do. */
static const char *parse_tcp(const char *text, struct address *a)
{
    const char *colon = strrchr(text, ':');
    const char *host = text;
    size_t len;

    a->kind = TCP;
    if (!colon || colon == text)
        return "expected tcp:HOST:PORT";
    len = (size_t)(colon - text);
    if (!parse_number(colon + 1, HIGHEST_PORT, &a->port))
        return "expected a port from 0 to 65535 at the end";

    a->brackets = *host == '[';
    if (a->brackets) {
        if (len < 3 || host[len - 1] != ']')
            return "expected tcp:[IPV6]:PORT";
        host++;
        len -= 2;
    }
    if (len >= sizeof(a->host))
        return "expected a host of at most 255 bytes";
    memcpy(a->host, host, len);
    a->host[len] = '\0';
    if (a->brackets && !is_ipv6(a->host))
        return "expected an IPv6 address within the brackets";
    if (!a->brackets && strchr(a->host, ':'))
        return "expected an IPv6 address to stand in brackets";
    return NULL;
}

static const char *parse_unix(const char *text, struct address *a)
{
    size_t len;

    a->kind = *text == '@' ? UNIX_ABSTRACT : UNIX_PATH;
    a->path = a->kind == UNIX_ABSTRACT ? text + 1 : text;
    len = strlen(a->path);
    if (len == 0)
        return "expected unix:PATH or unix:@NAME";
    if (len >= PATH_BYTES)
        return "expected a path or name of at most 107 bytes";
    return NULL;
}

static const char *parse_fd(const char *text, struct address *a)
{
    unsigned fd;

    a->kind = INHERITED;
    if (!parse_number(text, INT_MAX, &fd))
        return "expected fd:N, the number of a listening socket";
    a->fd = (int)fd;
    return NULL;
}

/* Behind a prefix, or NULL if text does not start with it. */
static const char *after(const char *text, const char *prefix)
{
    size_t len = strlen(prefix);

    return strncmp(text, prefix, len) == 0 ? text + len : NULL;
}

static const char *parse(const char *text, struct address *a)
{
    const char *rest;

    *a = (struct address){.fd = -1};
    if ((rest = after(text, "tcp:")))
        return parse_tcp(rest, a);
    if ((rest = after(text, "unix:")))
        return parse_unix(rest, a);
    if ((rest = after(text, "fd:")))
        return parse_fd(rest, a);
    return "expected tcp:HOST:PORT, unix:PATH, unix:@NAME or fd:N";
}

const char *nib__address_check(const char *address)
{
    struct address ignored;

    return parse(address, &ignored);
}

/* ---- errors ------------------------------------------------------------ */

/* Where the text about a failed nib__socket_listen() goes. */
struct complaint {
    const char *address;
    char *text;
    size_t cap;
};

/* Writes "ADDRESS: WHAT" and returns the code. */
static int complain(const struct complaint *c, int code, const char *what)
{
    if (c->cap > 0)
        snprintf(c->text, c->cap, "%s: %s", c->address, what);
    return code;
}

/* The same for what a system call just failed with. */
static int complain_errno(const struct complaint *c)
{
    int err = errno;

    return complain(c, -err, nib_strerror(-err));
}

/* ---- listening --------------------------------------------------------- */

static int open_stream(int family)
{
    return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static void set_option(int fd, int level, int option, int value)
{
    /* None of those set here can fail on a socket that it is meant for. */
    setsockopt(fd, level, option, &value, sizeof(value));
}

/* Binds and listens; returns the descriptor, or -1 with errno. */
static int listen_ip(const struct sockaddr *address, socklen_t len,
                     int backlog)
{
    int fd = open_stream(address->sa_family);
    int err;

    if (fd < 0)
        return -1;
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (address->sa_family == AF_INET6) {
        /* "::" alone means all of IPv4 as well, whatever the system's
           default; another address is what it is. */
        const struct sockaddr_in6 *in6 = (const void *)address;

        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY,
                   !IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr));
    }
    /* Accepted sockets inherit it, which saves them a call. */
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (bind(fd, address, len) == 0 && listen(fd, backlog) == 0)
        return fd;

    err = errno;
    close(fd);
    errno = err;
    return -1;
}

/* Was the failure that the system has no such family or address? */
static bool not_here(void)
{
    return errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL ||
           errno == EPROTONOSUPPORT;
}

static int resolve(const struct address *a, struct addrinfo **list,
                   const struct complaint *c)
{
    struct addrinfo hints = {
        .ai_family = a->brackets ? AF_INET6 : AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_NUMERICSERV | (a->brackets ? AI_NUMERICHOST : 0),
    };
    char port[8];
    int r;

    snprintf(port, sizeof(port), "%u", a->port);
    r = getaddrinfo(a->host, port, &hints, list);
    switch (r) {
    case 0:
        return 0;
    case EAI_SYSTEM:
        return complain_errno(c);
    case EAI_MEMORY:
        return complain(c, -ENOMEM, gai_strerror(r));
    case EAI_AGAIN:
        return complain(c, -EAGAIN, gai_strerror(r));
    default:
        return complain(c, -EADDRNOTAVAIL, gai_strerror(r));
    }
}

/*
 * Listens on the first of the host's addresses that this system has. A port
 * that is taken is not a reason to look further: the second address would
 * then be served by us and the first by somebody else.
 */
static int listen_tcp(const struct address *a, int backlog, int *fd,
                      const struct complaint *c)
{
    struct addrinfo *list = NULL;
    int r = resolve(a, &list, c);

    if (r < 0)
        return r;
    *fd = -1;
    for (struct addrinfo *i = list; i; i = i->ai_next) {
        *fd = listen_ip(i->ai_addr, i->ai_addrlen, backlog);
        if (*fd >= 0 || !not_here())
            break;
    }
    if (*fd < 0 && not_here() && a->brackets &&
        IN6_IS_ADDR_UNSPECIFIED(
            &((struct sockaddr_in6 *)(void *)list->ai_addr)->sin6_addr)) {
        struct sockaddr_in all = {
            .sin_family = AF_INET,
            .sin_port = htons((uint16_t)a->port),
        };

        *fd = listen_ip((struct sockaddr *)&all, sizeof(all), backlog);
    }
    r = *fd >= 0 ? 0 : complain_errno(c);
    freeaddrinfo(list);
    return r;
}

static socklen_t unix_address(const struct address *a, struct sockaddr_un *un)
{
    bool abstract = a->kind == UNIX_ABSTRACT;
    size_t len = strlen(a->path);

    /* An abstract name is a NUL, then its bytes, and ends with the length. */
    *un = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(un->sun_path + abstract, a->path, len);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1);
}

/*
 * What keeps a path from being bound: returns NULL if it is a socket that
 * refuses connections, else why it has to stay.
 */
static const char *why_not_dead(const struct sockaddr_un *un, socklen_t len)
{
    const char *why = "somebody listens there already";
    struct stat status;
    int fd;

    if (lstat(un->sun_path, &status) < 0)
        return nib_strerror(-errno);
    if (!S_ISSOCK(status.st_mode))
        return "exists and is not a socket";
    fd = open_stream(AF_UNIX);
    if (fd < 0)
        return nib_strerror(-errno);
    if (connect(fd, (const struct sockaddr *)un, len) < 0) {
        if (errno == ECONNREFUSED)
            why = NULL;
        else if (errno != EAGAIN) /* a full queue is somebody's */
            why = "exists, and whether it is in use cannot be told";
    }
    close(fd);
    return why;
}

static int listen_unix(const struct address *a, int backlog, int *fd,
                       const struct complaint *c)
{
    struct sockaddr_un un;
    socklen_t len = unix_address(a, &un);
    const struct sockaddr *address = (const struct sockaddr *)&un;
    int r;

    *fd = open_stream(AF_UNIX);
    if (*fd < 0)
        return complain_errno(c);

    r = bind(*fd, address, len);
    if (r < 0 && errno == EADDRINUSE && a->kind == UNIX_PATH) {
        const char *why = why_not_dead(&un, len);

        if (why) {
            r = complain(c, -EADDRINUSE, why);
            goto fail;
        }
        unlink(un.sun_path);
        r = bind(*fd, address, len);
    }
    if (r == 0)
        r = listen(*fd, backlog);
    if (r == 0)
        return 0;
    r = complain_errno(c);
fail:
    close(*fd);
    *fd = -1;
    return r;
}

static int integer_option(int fd, int option)
{
    int value = -1;
    socklen_t len = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 ? value : -1;
}

static int listen_inherited(const struct address *a, int *fd,
                            const struct complaint *c)
{
    int family;
    int flags = fcntl(a->fd, F_GETFL);

    if (flags < 0)
        return complain_errno(c);
    family = integer_option(a->fd, SO_DOMAIN);
    if (family < 0)
        return complain(c, -ENOTSOCK, "is not a socket");
    if ((family != AF_INET && family != AF_INET6 && family != AF_UNIX) ||
        integer_option(a->fd, SO_TYPE) != SOCK_STREAM)
        return complain(c, -EINVAL, "is not a TCP or unix stream socket");
    if (integer_option(a->fd, SO_ACCEPTCONN) != 1)
        return complain(c, -EINVAL, "is a socket that does not listen");

    if (fcntl(a->fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(a->fd, F_SETFD, FD_CLOEXEC) < 0)
        return complain_errno(c);
    if (family != AF_UNIX)
        set_option(a->fd, IPPROTO_TCP, TCP_NODELAY, 1);
    *fd = a->fd;
    return 0;
}

int nib__socket_listen(const char *address, int backlog, int *fd, char *error,
                       size_t error_cap)
{
    const struct complaint c = {address, error, error_cap};
    struct address a;
    const char *why = parse(address, &a);

    *fd = -1;
    if (why)
        return complain(&c, -EINVAL, why);
    switch (a.kind) {
    case TCP:
        return listen_tcp(&a, backlog, fd, &c);
    case UNIX_PATH:
    case UNIX_ABSTRACT:
        return listen_unix(&a, backlog, fd, &c);
    case INHERITED:
        return listen_inherited(&a, fd, &c);
    }
    return -EINVAL;
}

void nib__socket_unlink(const char *address, int fd)
{
    union any_address name = {.any.sa_family = AF_UNSPEC};
    socklen_t len = sizeof(name);
    struct address a;
    struct stat status;

    if (parse(address, &a) || a.kind != UNIX_PATH)
        return;
    if (getsockname(fd, &name.any, &len) < 0 || name.any.sa_family != AF_UNIX)
        return;
    if (strncmp(name.un.sun_path, a.path, PATH_BYTES) != 0)
        return;
    if (lstat(a.path, &status) == 0 && S_ISSOCK(status.st_mode))
        unlink(a.path);
}

/* ---- accepting --------------------------------------------------------- */

static void set_peer(struct nib__peer *peer, const union any_address *a)
{
    *peer = (struct nib__peer){.family = (uint8_t)a->any.sa_family};
    if (peer->family == AF_INET) {
        memcpy(peer->bytes, &a->in.sin_addr, 4);
        peer->port = ntohs(a->in.sin_port);
    } else if (peer->family == AF_INET6) {
        const uint8_t *bytes = a->in6.sin6_addr.s6_addr;

        peer->port = ntohs(a->in6.sin6_port);
        if (IN6_IS_ADDR_V4MAPPED(&a->in6.sin6_addr)) {
            /* An IPv4 client of a dual-stack socket. */
            peer->family = AF_INET;
            memcpy(peer->bytes, bytes + 12, 4);
        } else {
            memcpy(peer->bytes, bytes, 16);
            peer->scope = a->in6.sin6_scope_id;
        }
    }
}

int nib__socket_accept(int listener, int *fd, struct nib__peer *peer)
{
    union any_address address = {.any.sa_family = AF_UNSPEC};
    socklen_t len;

    do {
        len = sizeof(address);
        *fd = accept4(listener, &address.any, &len,
                      SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while (*fd < 0 && errno == EINTR);
    if (*fd < 0)
        return -errno;
    set_peer(peer, &address);
    return 0;
}

/* ---- options ----------------------------------------------------------- */

static int buffer_size(unsigned bytes)
{
    return bytes < INT_MAX ? (int)bytes : INT_MAX;
}

void nib__socket_buffers(int fd, unsigned send_bytes, unsigned receive_bytes)
{
    if (send_bytes > 0)
        set_option(fd, SOL_SOCKET, SO_SNDBUF, buffer_size(send_bytes));
    if (receive_bytes > 0)
        set_option(fd, SOL_SOCKET, SO_RCVBUF, buffer_size(receive_bytes));
}

void nib__socket_reset_on_close(int fd)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

/* ---- texts ------------------------------------------------------------- */

/* "%NAME" of a link-local address's interface, or its number, or "". */
static void zone_text(uint32_t scope, char zone[IF_NAMESIZE + 1])
{
    zone[0] = '\0';
    if (scope == 0)
        return;
    zone[0] = '%';
    if (!if_indextoname(scope, zone + 1))
        snprintf(zone + 1, IF_NAMESIZE, "%u", scope);
}

static int ip_text(const struct nib__peer *peer, char *text, size_t cap)
{
    char host[INET6_ADDRSTRLEN];
    char zone[IF_NAMESIZE + 1];

    inet_ntop(peer->family, peer->bytes, host, sizeof(host));
    if (peer->family == AF_INET)
        return snprintf(text, cap, "%s:%u", host, peer->port);
    zone_text(peer->scope, zone);
    return snprintf(text, cap, "[%s%s]:%u", host, zone, peer->port);
}

static int unix_text(const struct sockaddr_un *un, socklen_t len, char *text,
                     size_t cap)
{
    size_t path = offsetof(struct sockaddr_un, sun_path);
    int bytes = len > path ? (int)(len - path) : 0;

    if (bytes > 0 && un->sun_path[0] == '\0')
        return snprintf(text, cap, "unix:@%.*s", bytes - 1, un->sun_path + 1);
    return snprintf(text, cap, "unix:%.*s", bytes, un->sun_path);
}

int nib__socket_name(int fd, char *text, size_t cap)
{
    union any_address name = {.any.sa_family = AF_UNSPEC};
    socklen_t len = sizeof(name);
    struct nib__peer ip;

    if (getsockname(fd, &name.any, &len) < 0)
        return -errno;
    if (name.any.sa_family == AF_UNIX)
        return unix_text(&name.un, len, text, cap);
    if (name.any.sa_family != AF_INET && name.any.sa_family != AF_INET6)
        return -EAFNOSUPPORT;
    set_peer(&ip, &name);
    return ip_text(&ip, text, cap);
}

void nib__peer_text(const struct nib__peer *peer, char text[NIB__ADDRESS_TEXT])
{
    if (peer->family == AF_INET || peer->family == AF_INET6)
        ip_text(peer, text, NIB__ADDRESS_TEXT);
    else
        snprintf(text, NIB__ADDRESS_TEXT, "unix:");
}
