/* Memory of the C library whose sizes are checked. The library adds its own bytes to a size without a look at the sum, so
 * that a size near the largest one, such as a length of -1, gives a block of a few bytes. Its functions are weak: these,
 * and what uses them, such as `new`, take their place. */
#ifdef __wasm__
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Maximum size of a block, in bytes: differences of pointers into it fit. */
#define LARGEST ((size_t)PTRDIFF_MAX)

static void *refused(void) {
    errno = ENOMEM;
    return NULL;
}

void *aligned_alloc(size_t align, size_t size) {
    void *made = NULL;
    if (align < sizeof made) align = sizeof made;
    if (align > LARGEST || size > LARGEST) return refused();
    return posix_memalign(&made, align, size) ? refused() : made;
}

void *memalign(size_t align, size_t size) { return aligned_alloc(align, size); }

void *malloc(size_t size) { return aligned_alloc(_Alignof(max_align_t), size); }

void *calloc(size_t count, size_t size) {
    size_t whole;
    if (__builtin_mul_overflow(count, size, &whole)) return refused();
    void *made = malloc(whole);
    return made ? memset(made, 0, whole) : NULL;
}

void *realloc(void *old, size_t size) { return size > LARGEST ? refused() : reallocarray(old, size, 1); }
#endif
