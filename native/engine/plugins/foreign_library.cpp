#include "plugins/foreign_library.hpp"

#include <cstring>

namespace astrarium {
namespace {

constexpr std::size_t log_lines = 10'000;

}  // namespace

LibraryNetwork::LibraryNetwork(const astrarium_network* table, const Plan& plan, std::string options, std::uint64_t patience)
    : table_(table), patience_(patience) {
    if (!table) throw PluginFault("astrarium_network_v1() gave no table");
    if (table->version != ASTRARIUM_NETWORK_VERSION || table->size < sizeof(astrarium_network))
        throw PluginFault("its table has version " + std::to_string(table->version) + " and " + std::to_string(table->size) +
                          " bytes; expected version " + std::to_string(ASTRARIUM_NETWORK_VERSION) + " and at least " +
                          std::to_string(sizeof(astrarium_network)));
    if (!table->create || !table->destroy || !table->sim_send || !table->sim_recv || !table->sim_schedule || !table->sim_get_time ||
        !table->next_event_time != !table->advance)
        throw PluginFault("its table lacks a function");
    name_ = table->name ? table->name : "unnamed";
    offer_ = {sizeof offer_, ASTRARIUM_NETWORK_VERSION, this, host_now, host_schedule, host_delivered, host_log};
    for (const Dim& d : plan.network.dims) dims_.push_back({static_cast<std::int32_t>(d.shape), d.npus, d.bandwidth, d.latency});
    fabric_ = {sizeof fabric_, sizeof(astrarium_dim), plan.npus, static_cast<std::int32_t>(dims_.size()), dims_.data()};
    network_ = table->create(&offer_, &fabric_, options.c_str());
    if (!network_) throw PluginFault("create() failed: " + words(nullptr));
}

LibraryNetwork::~LibraryNetwork() {
    if (network_) table_->destroy(network_);
}

std::string LibraryNetwork::words(void* network) const {
    const char* text = table_->error ? table_->error(network) : nullptr;
    return text ? text : "it does not say why";
}

void LibraryNetwork::check(int status, const char* function) {
    if (!fault_.empty()) throw PluginFault(fault_);
    if (status) throw PluginFault(std::string(function) + "() failed: " + words(network_));
}

void LibraryNetwork::send(const ForeignMessage& m) {
    check(table_->sim_send(network_, m.token, m.size, m.source, m.destination, m.tag), "sim_send");
}

void LibraryNetwork::receive(const ForeignMessage& m) {
    check(table_->sim_recv(network_, m.token, m.size, m.source, m.destination, m.tag), "sim_recv");
}

Tick LibraryNetwork::next_event_time() {
    if (!table_->next_event_time) return never;
    const Tick next = table_->next_event_time(network_);
    check(0, "next_event_time");
    return next;
}

void LibraryNetwork::advance(Tick to) {
    if (table_->advance) check(table_->advance(network_, to), "advance");
}

Tick LibraryNetwork::time() { return table_->sim_get_time(network_); }

void LibraryNetwork::fire(std::uint32_t timer) {
    const Timer due = timers_[timer];
    timer_free_.push_back(timer);
    due.callback(due.argument);
    check(0, "schedule");
}

int LibraryNetwork::refuse(const char* why) {
    if (fault_.empty()) fault_ = why;
    return -1;
}

std::int64_t LibraryNetwork::host_now(void* run) { return self(run).host_ ? self(run).host_->now() : 0; }

int LibraryNetwork::host_schedule(void* run, std::int64_t delta, void (*callback)(void*), void* argument) {
    LibraryNetwork& me = self(run);
    if (!me.host_) return me.refuse("schedules a callback outside of a run");
    if (!callback) return me.refuse("schedules a null callback");
    if (me.timer_free_.empty()) {
        me.timer_free_.push_back(static_cast<std::uint32_t>(me.timers_.size()));
        me.timers_.emplace_back();
    }
    const std::uint32_t timer = me.timer_free_.back();
    try {
        me.host_->schedule(delta, timer);
    } catch (const std::exception& e) { return me.refuse(e.what()); }
    me.timer_free_.pop_back();
    me.timers_[timer] = {callback, argument};
    return 0;
}

int LibraryNetwork::host_delivered(void* run, std::uint64_t message) {
    LibraryNetwork& me = self(run);
    if (!me.host_) return me.refuse("calls a callback outside of a run");
    try {
        me.host_->over(message);
    } catch (const std::exception& e) { return me.refuse(e.what()); }
    return 0;
}

void LibraryNetwork::host_log(void* run, int level, const char* text) {
    auto& log = self(run).log_;
    if (!text) return;
    log.emplace_back(level, std::string(text, strnlen(text, 4096)));
    if (log.size() > log_lines) log.pop_front();
}

}  // namespace astrarium
