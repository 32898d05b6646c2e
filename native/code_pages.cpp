#include "bindings.hpp"

#if defined(__linux__)
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; an older kernel answers EINVAL, and pages come one by one
#endif

namespace {

int populate_own(dl_phdr_info* object, size_t, void* inside) {
    const auto wanted = reinterpret_cast<uintptr_t>(inside), page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    for (int i = 0; i < object->dlpi_phnum; ++i) {
        const auto& part = object->dlpi_phdr[i];
        const uintptr_t begin = object->dlpi_addr + part.p_vaddr, end = begin + part.p_memsz;
        if (part.p_type == PT_LOAD && wanted >= begin && wanted < end) {
            const uintptr_t first = begin & ~(page - 1);
            madvise(reinterpret_cast<void*>(first), end - first, MADV_POPULATE_READ);
            return 1;
        }
    }
    return 0;
}

}  // namespace

void populate_code_pages() { dl_iterate_phdr(populate_own, reinterpret_cast<void*>(&populate_code_pages)); }
#else
void populate_code_pages() {}
#endif
