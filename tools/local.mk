# tools - nib-bench and nib. They link libnibcore for its frame module.

# What both share, and unit tests as well.
noinst_LTLIBRARIES += libnibtools.la
libnibtools_la_SOURCES = \
	%D%/address.c \
	%D%/address.h \
	%D%/client.c \
	%D%/client.h \
	%D%/flow.c \
	%D%/flow.h \
	%D%/histogram.c \
	%D%/histogram.h \
	%D%/options.c \
	%D%/options.h \
	%D%/process.c \
	%D%/process.h \
	%D%/report.c \
	%D%/report.h \
	%D%/secure.c \
	%D%/secure.h \
	%D%/tally.c \
	%D%/tally.h \
	%D%/target.c \
	%D%/target.h \
	%D%/tls_options.c \
	%D%/tls_options.h \
	%D%/units.c \
	%D%/units.h \
	%D%/upgrade.c \
	%D%/upgrade.h \
	%D%/url.c \
	%D%/url.h
libnibtools_la_LIBADD = libnibcore.la -lm

bin_PROGRAMS += nib nib-bench

nib_SOURCES = %D%/nib.c
nib_LDADD = libnibtools.la


nib_bench_SOURCES = \
	%D%/bench.c \
	%D%/bench.h \
	%D%/bench_broadcast.c \
	%D%/bench_cycle.c \
	%D%/bench_echo.c \
	%D%/bench_idle.c \
	%D%/bench_main.c \
	%D%/bench_serve.c \
	%D%/bench_stream.c \
	%D%/serve_paths.c \
	%D%/serve_paths.h
nib_bench_LDADD = libnibtools.la
