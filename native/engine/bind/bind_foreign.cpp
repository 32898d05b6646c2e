// Runs of a Plan with plug-ins.
#include <nanobind/stl/string.h>

#include <functional>

#include "bindings.hpp"
#include "bind/convert.hpp"
#include "plugins/foreign_library.hpp"
#include "bind/foreign_python.hpp"

namespace nb = nanobind;

namespace {

using namespace astrarium;

// Which plug-in was at work when something was thrown: 0 network, 1 memory, 2 scheduler, 3 workload.
struct Blame : ForeignMemory, ForeignScheduler, ForeignWork {
    ForeignMemory* memory = nullptr;
    ForeignScheduler* scheduler = nullptr;
    ForeignWork* work = nullptr;
    int at = 0;
    Tick access(std::uint32_t rank, std::int64_t size, Tick now) override {
        at = 1;
        const Tick time = memory->access(rank, size, now);
        at = 0;
        return time;
    }
    std::size_t pick(std::uint32_t rank, int lane, const std::vector<std::uint64_t>& nodes, Tick now) override {
        at = 2;
        const std::size_t chosen = scheduler->pick(rank, lane, nodes, now);
        if (chosen < nodes.size()) at = 0;
        return chosen;
    }
    void start(std::vector<Handed>& ready) override {
        at = 3;
        work->start(ready);
        at = 0;
    }
    void completed(std::uint32_t rank, std::uint32_t node, Tick now, std::vector<Handed>& ready) override {
        at = 3;
        work->completed(rank, node, now, ready);
        at = 0;
    }
};

nb::object outcome_of(const std::function<Outcome()>& run, const Blame& blame) {
    try {
        return write_outcome(run());
    } catch (const Stall& stall) { return write_stall(stall); } catch (const BadTrace& e) {
        return write_fault("trace", e);
    } catch (const Unsupported& e) { return write_fault("unsupported", e); } catch (const PluginFault& e) {
        return nb::make_tuple("plugin", e.what(), blame.at);
    } catch (nb::python_error& e) { return nb::make_tuple("raised", nb::borrow(e.value()), blame.at); }
}

// `network`: None, (plug-in, name) or (address of a library's table, options); `memory`, `pick`: None or the function; `work`:
// None or (start, completed).
nb::object execute_with(nb::handle source, bool record, nb::handle network, nb::handle memory, nb::handle pick, nb::handle work,
                        std::uint64_t patience, nb::list log) {
    BorrowedPlan borrowed;
    Blame blame;
    Plugins plugins;
    std::unique_ptr<ForeignMemory> memories;
    std::unique_ptr<ForeignScheduler> schedulers;
    if (!memory.is_none()) memories = std::make_unique<PythonMemory>(memory), plugins.memory = &blame;
    if (!pick.is_none()) schedulers = std::make_unique<PythonScheduler>(pick), plugins.scheduler = &blame;
    std::unique_ptr<ForeignWork> works;
    if (!work.is_none()) works = std::make_unique<PythonWork>(work[0], work[1]);
    blame.memory = memories.get(), blame.scheduler = schedulers.get(), blame.work = works.get();
    const auto play = [&] { return works ? run_source(borrowed.plan, blame, plugins) : run_with(borrowed.plan, record, plugins); };
    std::unique_ptr<ForeignNetwork> owned;
    LibraryNetwork* library = nullptr;
    const auto run = [&] {
        read_plan(source, borrowed);
        if (network.is_none()) return play();
        const nb::object first = network[0], second = network[1];
        if (!PyLong_Check(first.ptr())) {
            owned = std::make_unique<PythonNetwork>(first, nb::cast<std::string>(second), patience);
            plugins.network = owned.get();
            return play();
        }
        const auto* table = reinterpret_cast<const astrarium_network*>(nb::cast<std::uintptr_t>(first));
        auto made = std::make_unique<LibraryNetwork>(table, borrowed.plan, nb::cast<std::string>(second), patience);
        plugins.network = library = made.get();
        owned = std::move(made);
        if (plugins.memory || plugins.scheduler || works) return play();
        const nb::gil_scoped_release unlocked;
        return play();
    };
    nb::object answer = outcome_of(run, blame);
    if (library)
        for (const auto& [level, text] : library->log()) log.append(nb::make_tuple(level, text));
    return answer;
}

}  // namespace

void bind_foreign(nb::module_& m) {
    nb::class_<Callback>(m, "Callback", "The callback of one sim_send or sim_recv of a network plug-in.").def("__call__", &Callback::call);
    m.def("execute_with", &execute_with, nb::arg("plan"), nb::arg("record"), nb::arg("network").none(), nb::arg("memory").none(),
          nb::arg("pick").none(), nb::arg("work").none(), nb::arg("patience"), nb::arg("log"),
          "Runs a Plan with plug-ins; a dict of the Outcome's columns, or (kind of error, message, ...).");
}
