# lib - libnib, the one library; and libnibcore, the same objects for those
# who may see hidden symbols (unit tests, tools).

include_HEADERS += %D%/nib.h

pkgconfigdir = $(libdir)/pkgconfig
nodist_pkgconfig_DATA = %D%/nib.pc

# One file a line, by layer, lowest first.
libnib_sources = \
	%D%/base/alloc.c \
	%D%/base/alloc.h \
	%D%/base/annotate.c \
	%D%/base/annotate.h \
	%D%/base/digest.c \
	%D%/base/digest.h \
	%D%/base/error.c \
	%D%/base/error.h \
	%D%/base/hash.h \
	%D%/base/log.c \
	%D%/base/log.h \
	%D%/base/mask.c \
	%D%/base/mask.h \
	%D%/base/utf8.c \
	%D%/base/utf8.h \
	%D%/protocol/assembler.c \
	%D%/protocol/assembler.h \
	%D%/protocol/frame.c \
	%D%/protocol/frame.h \
	%D%/protocol/handshake.c \
	%D%/protocol/handshake.h \
	%D%/protocol/message.c \
	%D%/protocol/message.h \
	%D%/protocol/response.c \
	%D%/protocol/response.h \
	%D%/protocol/tokens.c \
	%D%/protocol/tokens.h \
	%D%/system/poller.c \
	%D%/system/poller.h \
	%D%/system/socket.c \
	%D%/system/socket.h \
	%D%/system/ticket_keys.c \
	%D%/system/ticket_keys.h \
	%D%/system/timer.c \
	%D%/system/timer.h \
	%D%/system/tls.c \
	%D%/system/tls.h \
	%D%/system/tls_engine.h \
	%D%/system/tls_suites.c \
	%D%/system/tls_suites.h \
	%D%/system/transport.c \
	%D%/system/transport.h \
	%D%/threads/mailbox.c \
	%D%/threads/mailbox.h \
	%D%/threads/oneshot.c \
	%D%/threads/oneshot.h \
	%D%/threads/lock.h \
	%D%/threads/reactor.c \
	%D%/threads/reactor.h \
	%D%/server/addresses.c \
	%D%/server/addresses.h \
	%D%/server/command.c \
	%D%/server/command.h \
	%D%/server/config.c \
	%D%/server/config.h \
	%D%/server/config_tls.c \
	%D%/server/conn.c \
	%D%/server/conn.h \
	%D%/server/conn_end.c \
	%D%/server/conn_read.c \
	%D%/server/conn_tls.c \
	%D%/server/conn_tls.h \
	%D%/server/conn_write.c \
	%D%/server/extra.c \
	%D%/server/handle.c \
	%D%/server/handlers.c \
	%D%/server/handlers.h \
	%D%/server/http.c \
	%D%/server/http.h \
	%D%/server/inbox.c \
	%D%/server/inbox.h \
	%D%/server/listener.c \
	%D%/server/listener.h \
	%D%/server/outbox.c \
	%D%/server/outbox.h \
	%D%/server/publish.c \
	%D%/server/request.c \
	%D%/server/request.h \
	%D%/server/server.c \
	%D%/server/server.h \
	%D%/server/tail.c \
	%D%/server/tail.h \
	%D%/server/tls_context.c \
	%D%/server/tls_context.h \
	%D%/server/topic.c \
	%D%/server/topic.h \
	%D%/server/workers.c \
	%D%/server/workers.h

noinst_LTLIBRARIES += libnibcore.la
libnibcore_la_SOURCES = $(libnib_sources)
libnibcore_la_CPPFLAGS = $(AM_CPPFLAGS) $(NIB_NDEBUG) $(TLS_CFLAGS)
libnibcore_la_LIBADD = $(HTTP_PARSER_LIBS) $(TLS_LIBS)

# Files of one name know one TLS library.
if TLS_MBEDTLS
libnibcore_la_SOURCES += \
	%D%/system/tls_mbedtls.c \
	%D%/system/tls_mbedtls.h \
	%D%/system/tls_mbedtls_cert.c \
	%D%/system/tls_mbedtls_session.c \
	%D%/system/tls_mbedtls_text.c \
	%D%/system/tls_mbedtls_ticket.c
endif
if TLS_OPENSSL
libnibcore_la_SOURCES += \
	%D%/system/tls_openssl.c \
	%D%/system/tls_openssl.h \
	%D%/system/tls_openssl_files.c \
	%D%/system/tls_openssl_session.c \
	%D%/system/tls_openssl_text.c \
	%D%/system/tls_openssl_tickets.c
endif
if !TLS
libnibcore_la_SOURCES += %D%/system/tls_none.c
endif

lib_LTLIBRARIES += libnib.la
libnib_la_SOURCES =
libnib_la_LIBADD = libnibcore.la
libnib_la_LDFLAGS = $(AM_LDFLAGS) -no-undefined \
	-export-symbols-regex '^nib_[a-z]' \
	-version-info $(NIB_SO_VERSION)
