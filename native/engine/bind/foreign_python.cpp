#include "bind/foreign_python.hpp"

namespace nb = nanobind;

namespace astrarium {
namespace {

// An exact integer that fits, or a fault in words: no rounding of floats, no wrapping.
Tick whole(nb::handle value, const char* function) {
    Tick out = 0;
    const bool index = PyIndex_Check(value.ptr());
    const nb::object number = index ? nb::steal(PyNumber_Index(value.ptr())) : nb::object();
    if (index && !number.is_valid()) throw nb::python_error();
    if (!index || !nb::try_cast<Tick>(number, out))
        throw PluginFault(std::string(function) + "() gave " + nb::repr(value).c_str() + ", not a whole number of ps");
    return out;
}

}  // namespace

void Callback::call() const {
    if (!session->host) throw PluginFault("the run that this callback belongs to is over");
    try {
        session->host->over(token);
    } catch (const std::exception& e) {
        if (session->fault.empty()) session->fault = e.what();
        throw;
    }
}

PythonNetwork::PythonNetwork(nb::handle plugin, std::string name, std::uint64_t patience)
    : name_(std::move(name)), patience_(patience), send_(plugin.attr("sim_send")), receive_(plugin.attr("sim_recv")),
      next_(plugin.attr("next_event_time")), advance_(plugin.attr("advance")), time_(plugin.attr("sim_get_time")) {}

void PythonNetwork::check() const {
    if (!session_->fault.empty()) throw PluginFault(session_->fault);
}

void PythonNetwork::send(const ForeignMessage& m) {
    send_(m.size, m.source, m.destination, Callback{session_, m.token}, m.tag);
    check();
}

void PythonNetwork::receive(const ForeignMessage& m) {
    receive_(m.size, m.source, m.destination, Callback{session_, m.token}, m.tag);
    check();
}

Tick PythonNetwork::next_event_time() {
    const Tick next = whole(next_(), "next_event_time");
    check();
    return next;
}

void PythonNetwork::advance(Tick to) {
    advance_(to);
    check();
}

Tick PythonNetwork::time() { return whole(time_(), "sim_get_time"); }

Tick PythonMemory::access(std::uint32_t rank, std::int64_t size, Tick now) {
    const Tick time = whole(access_(size, rank, now), "access_time");
    if (time < 0) throw PluginFault("access_time() gave " + std::to_string(time) + " ps: time cannot go back");
    return time;
}

namespace {

void read_work(nb::handle works, std::vector<Handed>& ready) {
    for (nb::handle w : works) {
        const auto value = [&w]<class T>(int at, T) { return nb::cast<T>(w[at]); };
        ready.push_back({value(0, std::uint32_t{}), value(1, std::uint32_t{}), static_cast<Kind>(value(2, std::uint8_t{})),
                         value(3, std::int16_t{}), value(4, Tick{}), value(5, std::int64_t{}), value(6, std::int32_t{}),
                         value(7, std::int32_t{}), value(8, std::int32_t{})});
    }
}

}  // namespace

void PythonWork::start(std::vector<Handed>& ready) { read_work(start_(), ready); }

void PythonWork::completed(std::uint32_t rank, std::uint32_t node, Tick now, std::vector<Handed>& ready) {
    read_work(completed_(rank, node, now), ready);
}

std::size_t PythonScheduler::pick(std::uint32_t rank, int lane, const std::vector<std::uint64_t>& nodes, Tick now) {
    nb::list ids;
    for (const std::uint64_t node : nodes) ids.append(node);
    const Tick chosen = whole(pick_(rank, lane, ids, now), "pick");
    return chosen < 0 ? nodes.size() : static_cast<std::size_t>(chosen);
}

}  // namespace astrarium
