# man - one page a line, in mdoc; "make check" lints them.

man3_pages = \
	%D%/nib.3 \
	%D%/nib_accept.3 \
	%D%/nib_close.3 \
	%D%/nib_config.3 \
	%D%/nib_conn.3 \
	%D%/nib_message.3 \
	%D%/nib_post.3 \
	%D%/nib_publish.3 \
	%D%/nib_recv.3 \
	%D%/nib_request.3 \
	%D%/nib_route.3 \
	%D%/nib_send.3 \
	%D%/nib_server.3 \
	%D%/nib_strerror.3 \
	%D%/nib_tls.3

dist_man_MANS += \
	%D%/nib.1 \
	%D%/nib-bench.1 \
	%D%/nibd.8 \
	$(man3_pages)

# Every function is found by its own name: for each name in a page's NAME a
# page is installed that refers to it. Prints pairs of name and page.
man3_links = for page in $(man3_pages); do \
	  file=$$(basename $$page); \
	  awk -v page=$$file '/^\.Nd/ { exit } \
	      $$1 == ".Nm" && $$2 ".3" != page { print $$2, page }' \
	      $(srcdir)/$$page; \
	done

install-data-hook:
	@$(man3_links) | while read name page; do \
	  echo ".so man3/$$page" >"$(DESTDIR)$(man3dir)/$$name.3" || exit 1; \
	done

uninstall-hook:
	@$(man3_links) | while read name page; do \
	  rm -f "$(DESTDIR)$(man3dir)/$$name.3"; \
	done
