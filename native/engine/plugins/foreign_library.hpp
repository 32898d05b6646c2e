// A network plug-in behind the C ABI of astrarium_network.h. The library was opened elsewhere: the core gets its table.
#pragma once
#include <deque>
#include <memory>
#include <utility>

#include "plugins/astrarium_network.h"
#include "plugins/foreign.hpp"

namespace astrarium {

class LibraryNetwork final : public ForeignNetwork {
public:
    // Throws PluginFault when the table is not one that this engine can use, or the network cannot be made.
    LibraryNetwork(const astrarium_network* table, const Plan& plan, std::string options, std::uint64_t patience);
    ~LibraryNetwork() override;
    LibraryNetwork(const LibraryNetwork&) = delete;
    LibraryNetwork& operator=(const LibraryNetwork&) = delete;

    const std::string& name() const override { return name_; }
    void attach(ForeignHost* host) override { host_ = host; }
    void send(const ForeignMessage& m) override;
    void receive(const ForeignMessage& m) override;
    Tick next_event_time() override;
    void advance(Tick to) override;
    Tick time() override;
    void fire(std::uint32_t timer) override;
    std::uint64_t patience() const override { return patience_; }

    const std::deque<std::pair<int, std::string>>& log() const { return log_; }

private:
    struct Timer {
        void (*callback)(void*) = nullptr;
        void* argument = nullptr;
    };
    static LibraryNetwork& self(void* run) { return *static_cast<LibraryNetwork*>(run); }
    static std::int64_t host_now(void* run);
    static int host_schedule(void* run, std::int64_t delta, void (*callback)(void*), void* argument);
    static int host_delivered(void* run, std::uint64_t message);
    static void host_log(void* run, int level, const char* text);
    int refuse(const char* why);
    void check(int status, const char* function);
    std::string words(void* network) const;

    const astrarium_network* table_;
    astrarium_host offer_;
    std::vector<astrarium_dim> dims_;
    astrarium_fabric fabric_;
    std::string name_;
    void* network_ = nullptr;
    ForeignHost* host_ = nullptr;
    std::string fault_;  // what a host function refused: the plug-in may not pass it on
    std::vector<Timer> timers_;
    std::vector<std::uint32_t> timer_free_;
    std::deque<std::pair<int, std::string>> log_;
    std::uint64_t patience_;
};

}  // namespace astrarium
