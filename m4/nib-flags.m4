# nib-flags.m4 - try compiler and linker flags one by one.
#
# Each macro appends to VARIABLE those of FLAGS with which a program compiles
# and links. -Werror goes along in the test, as clang only warns about flags
# that it does not know.

# NIB_ADD_CFLAGS(VARIABLE, FLAGS)
AC_DEFUN([NIB_ADD_CFLAGS], [
  for nib_try in $2; do
    AC_MSG_CHECKING([whether $CC takes $nib_try])
    nib_saved=$CFLAGS
    CFLAGS="$CFLAGS -Werror $$1 $nib_try"
    AC_LINK_IFELSE([AC_LANG_SOURCE([[int main(void) { return 0; }]])],
      [AC_MSG_RESULT([yes])
       AS_VAR_APPEND([$1], [" $nib_try"])],
      [AC_MSG_RESULT([no])])
    CFLAGS=$nib_saved
  done])

# NIB_ADD_LDFLAGS(VARIABLE, FLAGS)
AC_DEFUN([NIB_ADD_LDFLAGS], [
  for nib_try in $2; do
    AC_MSG_CHECKING([whether the linker takes $nib_try])
    nib_saved=$LDFLAGS
    LDFLAGS="$LDFLAGS $$1 $nib_try"
    AC_LINK_IFELSE([AC_LANG_SOURCE([[int main(void) { return 0; }]])],
      [AC_MSG_RESULT([yes])
       AS_VAR_APPEND([$1], [" $nib_try"])],
      [AC_MSG_RESULT([no])])
    LDFLAGS=$nib_saved
  done])

# NIB_ADD_FORTIFY(VARIABLE)
# Appends the strongest -D_FORTIFY_SOURCE that compiles with the user's
# CFLAGS, or nothing if the user or the compiler sets one.
AC_DEFUN([NIB_ADD_FORTIFY], [
  nib_fortify=no
  for nib_try in 3 2; do
    AS_IF([test $nib_fortify = no],
      [AC_MSG_CHECKING([whether -D_FORTIFY_SOURCE=$nib_try works])
       nib_saved=$CFLAGS
       CFLAGS="$CFLAGS -Werror -D_FORTIFY_SOURCE=$nib_try"
       AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <stdio.h>]], [[puts("");]])],
         [nib_fortify=yes
          AS_VAR_APPEND([$1], [" -D_FORTIFY_SOURCE=$nib_try"])])
       AC_MSG_RESULT([$nib_fortify])
       CFLAGS=$nib_saved])
  done])
