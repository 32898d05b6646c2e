// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
#include "clock.hpp"

#include "ns3/object-factory.h"
#include "ns3/simulator.h"

namespace bridge {
namespace {

Tick limit = never;
bool stopped = false;
const std::function<void()>* beat = nullptr;

// ns-3's loop asks IsEmpty() before each event; that is where it is told to stop.
class UpTo final : public ns3::MapScheduler {
public:
    static ns3::TypeId GetTypeId() {
        static ns3::TypeId type = ns3::TypeId("bridge::UpTo").SetParent<ns3::MapScheduler>().AddConstructor<UpTo>();
        return type;
    }
    bool IsEmpty() const override {
        if (ns3::MapScheduler::IsEmpty()) return true;
        if ((++asked_ & 0xFFF) == 0 && beat != nullptr) (*beat)();
        if (stopped || static_cast<Tick>(PeekNext().key.m_ts) > limit) ns3::Simulator::Stop();
        return false;
    }

    UpTo() { events = this; }
    bool none() const { return ns3::MapScheduler::IsEmpty(); }
    static const UpTo* events;  // of ns-3's one simulation

private:
    mutable std::uint32_t asked_ = 0;
};

const UpTo* UpTo::events = nullptr;

}  // namespace

Clock::Clock() {
    ns3::Time::SetResolution(ns3::Time::PS);
    ns3::ObjectFactory factory;
    factory.SetTypeId(UpTo::GetTypeId());
    ns3::Simulator::SetScheduler(factory);
}

void Clock::run(Tick until, const std::function<void()>& pulse) {
    limit = until;
    beat = &pulse;
    ns3::Simulator::Run();
    beat = nullptr;
}

void Clock::stop() { stopped = true; }

Tick Clock::next() { return UpTo::events->none() ? never : static_cast<Tick>(UpTo::events->PeekNext().key.m_ts); }

Tick Clock::now() { return ns3::Simulator::Now().GetTimeStep(); }

}  // namespace bridge
