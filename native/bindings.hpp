// What each room of the core adds to the module astrarium._core.
#pragma once

#include <nanobind/nanobind.h>

void bind_trace(nanobind::module_& m);    // native/trace
void bind_engine(nanobind::module_& m);   // native/engine
void bind_foreign(nanobind::module_& m);  // native/engine, plug-ins
void bind_limit(nanobind::module_& m);    // native/engine, what ends runs
void bind_gpu(nanobind::module_& m);      // native/engine/gpu

// Maps the core's own code at once, in 20 us: its first calls would stop at page after page, 5 us each.
void populate_code_pages();
