// Plug-ins written in Python, as the engine calls them. The GIL is held throughout.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "plugins/foreign.hpp"

namespace astrarium {

// What the callbacks of one network share: they may outlive the run, and then find no host.
struct Session {
    ForeignHost* host = nullptr;
    std::string fault;  // what a callback refused: the plug-in may swallow the exception
};

// The callback of one sim_send or sim_recv.
struct Callback {
    std::shared_ptr<Session> session;
    std::uint64_t token = 0;
    void call() const;
};

class PythonNetwork final : public ForeignNetwork {
public:
    PythonNetwork(nanobind::handle plugin, std::string name, std::uint64_t patience);
    const std::string& name() const override { return name_; }
    void attach(ForeignHost* host) override { session_->host = host; }
    void send(const ForeignMessage& m) override;
    void receive(const ForeignMessage& m) override;
    Tick next_event_time() override;
    void advance(Tick to) override;
    Tick time() override;
    void fire(std::uint32_t) override {}
    std::uint64_t patience() const override { return patience_; }

private:
    void check() const;
    std::string name_;
    std::uint64_t patience_;
    std::shared_ptr<Session> session_ = std::make_shared<Session>();
    nanobind::object send_, receive_, next_, advance_, time_;
};

class PythonMemory final : public ForeignMemory {
public:
    explicit PythonMemory(nanobind::handle access) : access_(nanobind::borrow(access)) {}
    Tick access(std::uint32_t rank, std::int64_t size, Tick now) override;

private:
    nanobind::object access_;
};

// start() and completed(rank, node, now), which give a list of tuples in the order of Handed's fields.
class PythonWork final : public ForeignWork {
public:
    PythonWork(nanobind::handle start, nanobind::handle completed)
        : start_(nanobind::borrow(start)), completed_(nanobind::borrow(completed)) {}
    void start(std::vector<Handed>& ready) override;
    void completed(std::uint32_t rank, std::uint32_t node, Tick now, std::vector<Handed>& ready) override;

private:
    nanobind::object start_, completed_;
};

class PythonScheduler final : public ForeignScheduler {
public:
    explicit PythonScheduler(nanobind::handle pick) : pick_(nanobind::borrow(pick)) {}
    std::size_t pick(std::uint32_t rank, int lane, const std::vector<std::uint64_t>& nodes, Tick now) override;

private:
    nanobind::object pick_;
};

}  // namespace astrarium
