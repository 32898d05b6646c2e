#include "bindings.hpp"

#include <nanobind/stl/pair.h>
#include <time.h>

#include <utility>

#include "clock/interrupt.hpp"

namespace nb = nanobind;

namespace {

thread_local astrarium::Limit* limit = nullptr;
thread_local std::int64_t until = 0;

std::int64_t thread_cpu_ns() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

void astrarium::limit_thread(Limit* chosen, std::int64_t end) {
    limit = chosen;
    until = end;
}

void astrarium::count_progress(std::int64_t now, std::uint64_t more) {
    if (limit == nullptr) return;
    limit->now.store(now, std::memory_order_relaxed);
    limit->events.fetch_add(more, std::memory_order_relaxed);
}

void astrarium::stop_if_interrupted() {
    const bool stopped = limit != nullptr && limit->stopped.load(std::memory_order_relaxed);
    const bool over = until != 0 && thread_cpu_ns() >= until;
    const nb::gil_scoped_acquire locked;
    if (stopped) PyErr_SetNone(PyExc_KeyboardInterrupt);
    else if (over) PyErr_SetString(nb::module_::import_("astrarium.errors").attr("StoppedError").ptr(), "out of time");
    if (stopped || over || PyErr_CheckSignals() != 0) throw nb::python_error();
}

void bind_limit(nb::module_& m) {
    nb::class_<astrarium::Limit>(m, "Limit", "What ends the runs of several threads.")
        .def(nb::init<>())
        .def(
            "stop", [](astrarium::Limit& self) { self.stopped.store(true); }, "End all runs under this limit, now and later.")
        .def_prop_ro(
            "stopped", [](const astrarium::Limit& self) { return self.stopped.load(); }, "Whether they are to end.")
        .def_prop_ro(
            "progress", [](const astrarium::Limit& self) { return std::make_pair(self.now.load(), self.events.load()); },
            "How far the runs are: simulated time in ps, events of all so far.");
    m.def("count_progress", &astrarium::count_progress, nb::arg("now"), nb::arg("more"),
          "Says to this thread's limit, where it has one, that its run is at `now` (ps) after `more` events.");
    m.def("limit_thread", &astrarium::limit_thread, nb::arg("limit").none(), nb::arg("until"),
          "Runs of this thread end once `limit` is stopped, or at `until` (ns of the thread's CPU clock; 0: never).");
}
