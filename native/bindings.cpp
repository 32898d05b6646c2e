// The module astrarium._core. Each room binds itself; the core works on bytes and arrays, never opens a path.
#include "bindings.hpp"

NB_MODULE(_core, m) {
    m.doc() = "Compiled core of Astrarium: private, without a compatibility promise. Use the astrarium package.";
    nanobind::set_leak_warnings(false);  // worker processes end with the caches of a search alive
    populate_code_pages();
    bind_trace(m);
    bind_engine(m);
    bind_foreign(m);
    bind_limit(m);
    bind_gpu(m);
}
