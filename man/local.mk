# man - one page a line, in mdoc; "make check" lints them.

dist_man_MANS +=
