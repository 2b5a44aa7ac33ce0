# daemon - nibd. It links the shared library alone: what it needs must be in
# nib.h. The parsers of its command line are those of the tools.

nibd_settings_sources = \
	%D%/settings.c \
	%D%/settings.h \
	tools/address.c \
	tools/address.h \
	tools/options.c \
	tools/options.h \
	tools/tls_options.c \
	tools/tls_options.h \
	tools/units.c \
	tools/units.h

sbin_PROGRAMS += nibd
nibd_SOURCES = $(nibd_settings_sources) \
	%D%/echo.c \
	%D%/echo.h \
	%D%/held.c \
	%D%/held.h \
	%D%/hub.c \
	%D%/hub.h \
	%D%/log.c \
	%D%/log.h \
	%D%/main.c \
	%D%/page.c \
	%D%/page.h \
	%D%/reload.c \
	%D%/reload.h \
	%D%/serve.c \
	%D%/serve.h \
	%D%/signals.c \
	%D%/signals.h
nodist_nibd_SOURCES = %D%/page_html.c
nibd_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir) $(NIB_NDEBUG)
nibd_LDADD = libnib.la

# The page is compiled in, so that nibd is one file and works from anywhere.
%D%/page_html.c: %D%/page.html build-aux/embed.awk
	$(AM_V_GEN)$(MKDIR_P) %D% && \
	  $(AWK) -v name=page_html -v header=daemon/page.h \
	    -f $(srcdir)/build-aux/embed.awk $(srcdir)/%D%/page.html >$@.tmp && \
	  mv $@.tmp $@
CLEANFILES += %D%/page_html.c
EXTRA_DIST += %D%/page.html build-aux/embed.awk
