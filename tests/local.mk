# tests - what "make check" runs. Every test speaks TAP, so each of its cases
# is a line of the summary.
#
# A unit test is one line here, tests/unit/test_X from tests/unit/test_X.c.
# See HACKING for the other kinds.

# libcheck programs, linked to libnibcore: they may see hidden symbols.
unit_tests = \
	%D%/unit/test_address \
	%D%/unit/test_addresses \
	%D%/unit/test_alloc \
	%D%/unit/test_assembler \
	%D%/unit/test_assembler_faults \
	%D%/unit/test_client_url \
	%D%/unit/test_config \
	%D%/unit/test_daemon_settings \
	%D%/unit/test_digest \
	%D%/unit/test_error \
	%D%/unit/test_frame \
	%D%/unit/test_handshake \
	%D%/unit/test_handshake_limits \
	%D%/unit/test_handlers \
	%D%/unit/test_hash \
	%D%/unit/test_histogram \
	%D%/unit/test_inbox \
	%D%/unit/test_log \
	%D%/unit/test_mailbox \
	%D%/unit/test_mask \
	%D%/unit/test_message \
	%D%/unit/test_oneshot \
	%D%/unit/test_outbox \
	%D%/unit/test_owner \
	%D%/unit/test_poller \
	%D%/unit/test_reactor \
	%D%/unit/test_response \
	%D%/unit/test_socket \
	%D%/unit/test_socket_local \
	%D%/unit/test_tally \
	%D%/unit/test_ticket_keys \
	%D%/unit/test_timer \
	%D%/unit/test_tls_suites \
	%D%/unit/test_tokens \
	%D%/unit/test_transport \
	%D%/unit/test_units \
	%D%/unit/test_upgrade \
	%D%/unit/test_utf8

# The same, where there is a TLS library: one session against another.
tls_tests = \
	%D%/unit/test_tls_engine \
	%D%/unit/test_tls_settings \
	%D%/unit/test_tls_tickets
tls_pair = \
	%D%/tls/pair.c \
	%D%/tls/pair.h
tls_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
%C%_unit_test_tls_engine_SOURCES = %D%/unit/test_tls_engine.c $(tls_pair)
%C%_unit_test_tls_engine_CPPFLAGS = $(tls_cppflags)
%C%_unit_test_tls_settings_SOURCES = %D%/unit/test_tls_settings.c $(tls_pair)
%C%_unit_test_tls_settings_CPPFLAGS = $(tls_cppflags)
%C%_unit_test_tls_tickets_SOURCES = %D%/unit/test_tls_tickets.c $(tls_pair)
%C%_unit_test_tls_tickets_CPPFLAGS = $(tls_cppflags)

# libcheck programs, linked to the shared library: nib.h alone. Each needs
# %C%_api_test_X_LDADD = $(api_ldadd).
api_tests = \
	%D%/api/test_accept \
	%D%/api/test_afterlife \
	%D%/api/test_close \
	%D%/api/test_http \
	%D%/api/test_join \
	%D%/api/test_keepalive \
	%D%/api/test_limits \
	%D%/api/test_next \
	%D%/api/test_placement \
	%D%/api/test_post \
	%D%/api/test_recv \
	%D%/api/test_reset \
	%D%/api/test_send \
	%D%/api/test_stop \
	%D%/api/test_threads \
	%D%/api/test_topic \
	%D%/api/test_waits
%C%_api_test_accept_LDADD = $(api_ldadd)
%C%_api_test_afterlife_LDADD = $(api_ldadd)
%C%_api_test_close_LDADD = $(api_ldadd)
%C%_api_test_http_LDADD = $(api_ldadd)
%C%_api_test_join_LDADD = $(api_ldadd)
%C%_api_test_keepalive_LDADD = $(api_ldadd)
%C%_api_test_limits_LDADD = $(api_ldadd)
%C%_api_test_next_LDADD = $(api_ldadd)
%C%_api_test_placement_LDADD = $(api_ldadd)
%C%_api_test_post_LDADD = $(api_ldadd)
%C%_api_test_recv_LDADD = $(api_ldadd)
%C%_api_test_reset_LDADD = $(api_ldadd)
%C%_api_test_send_LDADD = $(api_ldadd)
%C%_api_test_stop_LDADD = $(api_ldadd)
%C%_api_test_threads_SOURCES = \
	%D%/api/calls.c \
	%D%/api/calls.h \
	%D%/api/test_threads.c
%C%_api_test_threads_LDADD = $(api_ldadd)
%C%_api_test_topic_LDADD = $(api_ldadd)
%C%_api_test_waits_LDADD = $(api_ldadd)

# What the API tests share: a server under test, and a raw peer.
%C%_libfixture_la_SOURCES = \
	%D%/api/fixture.c \
	%D%/api/fixture.h \
	%D%/peer/peer.c \
	%D%/peer/peer.h
%C%_libfixture_la_LIBADD = %D%/libwire.la

# The client's end. It has libnibcore inside, of which it shows nothing, so
# that the library under test stays the shared one. (A folder to be installed
# in, which nothing ever is, makes libtool build a shared library.)
%C%_libwire_la_SOURCES = \
	%D%/peer/wire.c \
	%D%/peer/wire.h
%C%_libwire_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
%C%_libwire_la_LIBADD = libnibcore.la
%C%_libwire_la_LDFLAGS = $(AM_LDFLAGS) -no-undefined -avoid-version \
	-export-symbols-regex '^wire_' -rpath /nowhere

# Each of them once more, over TLS: a script of one line, made here.
api_tls_tests = $(api_tests:=.tls.sh)
$(api_tls_tests):
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	echo "exec sh '$(abs_top_srcdir)/%D%/api/over_tls.sh'" \
	    "'$(abs_top_builddir)/$@'" | sed "s/\.tls\.sh'$$/'/" >$@

# Scripts that read the source or the built library.
style_tests = \
	%D%/analyze/rules.sh \
	%D%/style/layers.py \
	%D%/style/listed.py \
	%D%/style/source.py \
	%D%/style/thread_tags.py \
	%D%/style/exported_symbols.py \
	%D%/style/man_functions.py \
	%D%/style/man_pages.sh

# Scripts (.sh, .py) that start the real programs, and what takes longer:
# end-to-end, stress, models. --disable-e2e leaves them out.
e2e_tests = \
	%D%/e2e/test_bench.py \
	%D%/e2e/test_browser.py \
	%D%/e2e/test_clients.py \
	%D%/e2e/test_console.py \
	%D%/e2e/test_examples.py \
	%D%/e2e/test_man_options.py \
	%D%/e2e/test_nibd.py \
	%D%/e2e/test_story.py \
	%D%/e2e/test_tls.py

# Programs that explore a model, without libcheck; left out likewise.
model_tests = \
	%D%/model/mailbox_model
%C%_model_mailbox_model_SOURCES = \
	%D%/model/mailbox_model.c \
	%D%/model/mailbox_steps.c \
	%D%/model/mailbox_steps.h
%C%_model_mailbox_model_LDADD =

# Programs that hurry: many threads, many connections, every moment to fail
# at. Short in "make check", long in "make check-stress".
stress_tests = \
	%D%/fault/test_calls \
	%D%/fault/test_memory \
	%D%/stress/test_lives \
	%D%/stress/test_senders \
	%D%/stress/test_topics
stress_rig = \
	%D%/stress/rig.c \
	%D%/stress/rig.h
stress_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/stress
%C%_unit_test_owner_SOURCES = %D%/unit/test_owner.c $(stress_rig)
%C%_unit_test_owner_CPPFLAGS = $(stress_cppflags)
%C%_fault_test_calls_SOURCES = %D%/fault/test_calls.c $(stress_rig)
%C%_fault_test_calls_CPPFLAGS = $(stress_cppflags)
# The library's objects themselves, whose calls the linker turns round.
%C%_fault_test_calls_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=recv,--wrap=sendmsg,--wrap=accept4 \
	-Wl,--wrap=epoll_wait,--wrap=epoll_pwait2
%C%_fault_test_memory_SOURCES = %D%/fault/test_memory.c $(stress_rig)
%C%_fault_test_memory_CPPFLAGS = $(stress_cppflags)
%C%_stress_test_lives_SOURCES = %D%/stress/test_lives.c $(stress_rig)
%C%_stress_test_lives_CPPFLAGS = $(stress_cppflags)
%C%_stress_test_senders_SOURCES = %D%/stress/test_senders.c $(stress_rig)
%C%_stress_test_senders_CPPFLAGS = $(stress_cppflags)
%C%_stress_test_topics_SOURCES = %D%/stress/test_topics.c $(stress_rig)
%C%_stress_test_topics_CPPFLAGS = $(stress_cppflags)

# Programs that tests start; built, not run.
test_helpers = \
	%D%/bench/epoll_echo \
	%D%/peer/peer_script
%C%_peer_peer_script_SOURCES = \
	%D%/peer/peer.c \
	%D%/peer/peer.h \
	%D%/peer/peer_script.c
%C%_peer_peer_script_CPPFLAGS = $(AM_CPPFLAGS)
%C%_peer_peer_script_LDADD = %D%/libwire.la

# Small programs that the man pages show: nib.h and the shared library alone.
# e2e/test_examples.py talks to them, installcheck builds them once more.
examples = \
	%D%/examples/callbacks \
	%D%/examples/echo_blocking \
	%D%/examples/http \
	%D%/examples/own_threads \
	%D%/examples/reject \
	%D%/examples/threads \
	%D%/examples/topic
%C%_examples_callbacks_LDADD = libnib.la
%C%_examples_echo_blocking_LDADD = libnib.la
%C%_examples_http_LDADD = libnib.la
%C%_examples_own_threads_LDADD = libnib.la
%C%_examples_reject_LDADD = libnib.la
%C%_examples_threads_LDADD = libnib.la
%C%_examples_topic_LDADD = libnib.la

LDADD = libnibcore.la $(CHECK_LIBS)
api_ldadd = %D%/libfixture.la libnib.la $(CHECK_LIBS)
AM_CPPFLAGS += $(CHECK_CFLAGS)

# Those of the tools.
tools_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)/tools
tools_ldadd = libnibtools.la $(CHECK_LIBS)
%C%_unit_test_client_url_CPPFLAGS = $(tools_cppflags)
%C%_unit_test_client_url_LDADD = $(tools_ldadd)
%C%_unit_test_histogram_CPPFLAGS = $(tools_cppflags)
%C%_unit_test_histogram_LDADD = $(tools_ldadd)
%C%_unit_test_tally_CPPFLAGS = $(tools_cppflags)
%C%_unit_test_tally_LDADD = $(tools_ldadd)
%C%_unit_test_address_CPPFLAGS = $(tools_cppflags)
%C%_unit_test_address_LDADD = $(tools_ldadd)
%C%_unit_test_units_CPPFLAGS = $(tools_cppflags)
%C%_unit_test_units_LDADD = $(tools_ldadd)
%C%_unit_test_upgrade_CPPFLAGS = $(tools_cppflags)
%C%_unit_test_upgrade_LDADD = $(tools_ldadd)

# Those of the daemon.
%C%_unit_test_daemon_settings_SOURCES = \
	%D%/unit/test_daemon_settings.c $(nibd_settings_sources)
%C%_unit_test_daemon_settings_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)

check_LTLIBRARIES += %D%/libwire.la
check_PROGRAMS += $(test_helpers) $(examples)
if HAVE_CHECK
check_PROGRAMS += $(unit_tests) $(api_tests)
check_LTLIBRARIES += %D%/libfixture.la
TESTS += $(unit_tests) $(api_tests)
if TLS
check_PROGRAMS += $(tls_tests)
TESTS += $(tls_tests)
CLEANFILES += $(api_tls_tests)
if E2E_TESTS
if !SANITIZED
TESTS += $(api_tls_tests)
endif
endif
endif
endif
TESTS += $(style_tests)
if E2E_TESTS
check_PROGRAMS += $(model_tests)
TESTS += $(e2e_tests) $(model_tests)
if HAVE_CHECK
check_PROGRAMS += $(stress_tests)
TESTS += $(stress_tests)
endif
endif

EXTRA_DIST += $(style_tests) $(e2e_tests) \
	%D%/style/tap.py \
	%D%/style/public.py \
	%D%/bench/figures.sh \
	%D%/unit/deny.h \
	%D%/unit/guard.h \
	%D%/unit/heads.h \
	%D%/unit/sanitized.h \
	%D%/unit/sockets.h \
	%D%/unit/stream.h \
	%D%/e2e/.npmrc \
	%D%/e2e/browser.js \
	%D%/e2e/nibtest.py \
	%D%/e2e/nibtls.py \
	%D%/e2e/package.json \
	%D%/e2e/package-lock.json \
	%D%/e2e/ws_echo.js \
	%D%/api/over_tls.sh \
	%D%/tls/certs.sh \
	%D%/tls/mbedtls36.sh \
	%D%/skip.sh \
	%D%/analyze.sh \
	%D%/analyze/control.c \
	%D%/analyze/lock_kept.c \
	%D%/analyze/no_lock.c \
	%D%/analyze/owned_field.c \
	%D%/analyze/owner_call.c \
	%D%/installcheck.sh

TEST_EXTENSIONS = .sh .py
tap_driver = env AM_TAP_AWK='$(AWK)' $(SHELL) \
	$(top_srcdir)/build-aux/tap-driver.sh
LOG_DRIVER = $(tap_driver)
SH_LOG_DRIVER = $(tap_driver)
SH_LOG_COMPILER = $(SHELL)
PY_LOG_DRIVER = $(tap_driver)
if HAVE_PYTHON
PY_LOG_COMPILER = $(PYTHON)
else
PY_LOG_COMPILER = $(SHELL) $(srcdir)/%D%/skip.sh python3
endif

# Under a sanitizer a test stays one process: its report must not get lost
# with a forked child. libcheck's own timeout of 4 s would fail good tests on
# a busy machine; ours only ends what hangs.
AM_TESTS_ENVIRONMENT = \
	CK_TAP_LOG_FILE_NAME=-; CK_VERBOSITY=silent; CK_DEFAULT_TIMEOUT=120; \
	export CK_TAP_LOG_FILE_NAME CK_VERBOSITY CK_DEFAULT_TIMEOUT; \
	NIB_SRCDIR='$(abs_top_srcdir)'; NIB_BUILDDIR='$(abs_top_builddir)'; \
	export NIB_SRCDIR NIB_BUILDDIR; \
	NIB_SANITIZERS='$(NIB_SANITIZERS)'; export NIB_SANITIZERS; \
	PYTHON='$(PYTHON)'; CC='$(CC)'; CLANG='$(CLANG)'; MANDOC='$(MANDOC)'; \
	export PYTHON CC CLANG MANDOC; \
	PYTHONDONTWRITEBYTECODE=1; export PYTHONDONTWRITEBYTECODE; \
	if test '$(NIB_SANITIZERS)' != no; then \
	  CK_FORK=no; UBSAN_OPTIONS=print_stacktrace=1; \
	  export CK_FORK UBSAN_OPTIONS; \
	fi;

.PHONY: analyze lint-man check-stress check-tls

# What depends on the TLS library, for the build of another one.
check-tls:
	$(MAKE) $(AM_MAKEFLAGS) check \
	  TESTS="$(tls_tests) $(filter %/test_tls.py,$(e2e_tests))"

check-stress:
	NIB_STRESS=1 $(MAKE) $(AM_MAKEFLAGS) check \
	    TESTS='$(stress_tests)'

# Who touches what, checked by clang; see ARCHITECTURE.
analyze:
	@CLANG='$(CLANG)' $(SHELL) $(srcdir)/%D%/analyze.sh \
	    $(DEFS) $(AM_CPPFLAGS) $(CPPFLAGS) -std=gnu11 -- \
	    $(addprefix $(srcdir)/,$(filter %.c,$(libnib_sources)))

lint-man:
	@MANDOC='$(MANDOC)' NIB_SRCDIR='$(srcdir)' \
	    $(SHELL) $(srcdir)/%D%/style/man_pages.sh

installcheck-local:
	@DESTDIR='$(DESTDIR)' LIBDIR='$(libdir)' BINDIR='$(bindir)' \
	CC='$(CC)' CFLAGS='$(CFLAGS) $(NIB_CFLAGS)' PKG_CONFIG='$(PKG_CONFIG)' \
	NIB_SRCDIR='$(srcdir)' $(SHELL) $(srcdir)/%D%/installcheck.sh
