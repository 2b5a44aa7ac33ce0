/*
 * annotate - who may touch what, told to the compiler.
 *
 * clang's capability analysis (`make analyze`) proves two rules. The owner's
 * role, nib__owner, is a capability that only a reactor's loop acquires;
 * fields that belong to the owner are NIB_OWNED, functions that touch them
 * NIB_OWNER_ONLY. A lock is a capability as usual. Which reactor it is that
 * owns, the asserts of debug builds and ThreadSanitizer check. For gcc the
 * macros are empty.
 */
#ifndef NIB_BASE_ANNOTATE_H
#define NIB_BASE_ANNOTATE_H

#if defined(__clang__)
#define NIB__ATTR(x) __attribute__((x))
#else
#define NIB__ATTR(x)
#endif

#define NIB__CAPABILITY(name) NIB__ATTR(capability(name))
#define NIB__GUARDED_BY(x) NIB__ATTR(guarded_by(x))
#define NIB__REQUIRES(...) NIB__ATTR(requires_capability(__VA_ARGS__))
#define NIB__ACQUIRE(...) NIB__ATTR(acquire_capability(__VA_ARGS__))
#define NIB__RELEASE(...) NIB__ATTR(release_capability(__VA_ARGS__))
#define NIB__TRY_ACQUIRE(...) NIB__ATTR(try_acquire_capability(__VA_ARGS__))
#define NIB__NO_ANALYSIS NIB__ATTR(no_thread_safety_analysis)

/* The role of the thread that owns a connection; has no memory of use. */
struct NIB__CAPABILITY("role") nib__role {
    char unused;
};
extern struct nib__role nib__owner;

#define NIB__OWNED NIB__GUARDED_BY(nib__owner)
#define NIB__OWNER_ONLY NIB__REQUIRES(nib__owner)

/* The reactor's loop takes the role on, and lays it down. */
static inline void nib__owner_enter(void)
    NIB__ACQUIRE(nib__owner) NIB__NO_ANALYSIS;
static inline void nib__owner_enter(void)
{
}

static inline void nib__owner_leave(void)
    NIB__RELEASE(nib__owner) NIB__NO_ANALYSIS;
static inline void nib__owner_leave(void)
{
}

#endif
