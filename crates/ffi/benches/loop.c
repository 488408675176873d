/* Calls a function for each hash, and returns how often it answered true. benches/abi.rs compiles
 * this file and passes the function as a pointer, so no compiler can inline the function. */
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
