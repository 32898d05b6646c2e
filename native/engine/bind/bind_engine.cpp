#include "bindings.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bind/convert.hpp"
#include "plan/run.hpp"
#include "clock/pace.hpp"

namespace nb = nanobind;

namespace astrarium {

nb::tuple write_fault(const char* kind, const Fault& fault) {
    const Place& at = fault.place;
    return nb::make_tuple(kind, nb::make_tuple(fault.what(), at.rank, at.node, at.work));
}

nb::tuple write_stall(const Stall& stall) {
    nb::list waits;
    for (const Wait& wait : stall.waits) waits.append(nb::make_tuple(wait.text, wait.rank, wait.node));
    return nb::make_tuple("stall", waits);
}

}  // namespace astrarium

namespace {

// Errors travel as `write_fault` says: engine/_native.py raises the right class.
nb::object execute(nb::handle source, bool record, bool fold, astrarium::Shared* kept, bool hurried, nb::object given_up, bool nodes,
                   astrarium::Tick most) {
    const auto tell = [&given_up](const std::string& why, const astrarium::Weight& weight) {
        const nb::gil_scoped_acquire locked;
        if (!given_up.is_none()) given_up(why, weight.events, weight.bytes);
    };
    astrarium::BorrowedPlan borrowed;
    try {
        astrarium::read_plan(source, borrowed, kept ? &kept->ranks : nullptr);
        astrarium::Outcome outcome;
        {
            nb::gil_scoped_release unlocked;
            const bool astra = borrowed.plan.policy.order == astrarium::Order::astra_sim;
            const bool all = record || (nodes && astra);
            if (fold) {
                const astrarium::FoldOptions options{all,
                                                     nodes,
                                                     most,
                                                     hurried,
                                                     kept ? kept->measurements.store() : std::make_shared<astrarium::LineStore>(),
                                                     borrowed.ranks->common,
                                                     tell};
                outcome =
                    astra ? astrarium::run_astra_folded(borrowed.plan, options) : astrarium::run_native_folded(borrowed.plan, options);
            } else {
                const astrarium::FoldOptions options{all, nodes, most, hurried, nullptr, nullptr, tell};
                outcome = astra ? astrarium::run_astra(borrowed.plan, all) : astrarium::run_native(borrowed.plan, options);
            }
        }
        return astrarium::write_outcome(outcome);
    } catch (const astrarium::Stall& stall) { return astrarium::write_stall(stall); } catch (const astrarium::BadTrace& e) {
        return astrarium::write_fault("trace", e);
    } catch (const astrarium::Unsupported& e) { return astrarium::write_fault("unsupported", e); } catch (const astrarium::Over& over) {
        return nb::make_tuple("over", over.most);
    }
}

double pace(const std::vector<std::vector<std::tuple<int, double, double, int>>>& rows, const std::vector<std::vector<int>>& paths,
            const std::vector<int>& chunks, int limit, double entry) {
    std::vector<std::vector<astrarium::Stride>> phases(rows.size());
    for (std::size_t k = 0; k < rows.size(); ++k)
        for (const auto& [port, service, latency, times] : rows[k]) phases[k].push_back({port, times, service, latency});
    return astrarium::pace(phases, paths, chunks, limit, entry);
}

}  // namespace

void bind_engine(nb::module_& m) {
    nb::class_<astrarium::Shared>(m, "Measurements",
                                  "Times of collectives, cached for later runs in at most so many bytes; and which ranks are equal.")
        .def(nb::init<std::size_t>(), nb::arg("most"));
    m.def("execute", &execute, nb::arg("plan"), nb::arg("record") = false, nb::arg("fold") = true, nb::arg("kept") = nb::none(),
          nb::arg("hurried") = false, nb::arg("given_up") = nb::none(), nb::arg("nodes") = false, nb::arg("most") = astrarium::never,
          "Runs a Plan; a dict of the Outcome's columns, or (kind of error, message).");
    m.def("pace", &pace, nb::arg("phases"), nb::arg("paths"), nb::arg("chunks"), nb::arg("limit"), nb::arg("entry"),
          "When the last of a collective's chunks ends at one NPU, in ns; see engine/strides.py.");
}
