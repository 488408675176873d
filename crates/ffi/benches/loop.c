/* Calls a function for each hash. benches/abi.rs compiles this file and passes the function, so that
 * neither compiler can inline it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

size_t ask_each(bool (*ask)(const void *, uint64_t), const void *filter, const uint64_t *hashes, size_t count) {
    size_t maybe = 0;
    for (size_t i = 0; i < count; i++) {
        maybe += ask(filter, hashes[i]);
    }
    return maybe;
}
