// A network plug-in as a medium: a co-simulation in which the run owns the loop. Sends and receives are handed over in the classes
// `depart` and `issue` of an instant, in key order; the plug-in's callbacks become events of class `done`.
#pragma once
#include <string>
#include <vector>

#include "plugins/foreign.hpp"
#include "media/medium.hpp"

namespace astrarium {

class ForeignMedium final : public Medium, private ForeignHost {
public:
    ForeignMedium(ForeignNetwork& network, Carried& run) : network_(network), run_(run) { network_.attach(this); }
    ~ForeignMedium() override { network_.attach(nullptr); }  // a callback that comes later finds no run
    ForeignMedium(const ForeignMedium&) = delete;
    ForeignMedium& operator=(const ForeignMedium&) = delete;

    void begin() override;
    void ask(MessageId id, Tick now) override;
    void wake(std::uint32_t timer, Tick) override { network_.fire(timer); }
    Traffic* traffic() override { return nullptr; }
    Tick next(Tick now) override;
    void run(Tick to) override;
    bool busy() const override { return open_ > 0; }
    std::uint64_t patience() const override { return network_.patience(); }
    std::vector<std::string> waits(Tick now, std::uint64_t steps) const override;

private:
    struct Life {
        std::uint32_t generation = 0;
        bool open = false;  // the plug-in has it, and has not called back
    };
    Tick now() const override { return run_.now(); }
    void over(std::uint64_t token) override;
    void schedule(Tick delta, std::uint32_t timer) override;
    void bring_to(Tick time);

    ForeignNetwork& network_;
    Carried& run_;
    std::vector<Life> lives_;  // per message
    Tick time_ = 0, next_ = never;
    bool touched_ = true;  // its next event may be another
    std::uint64_t open_ = 0;
};

}  // namespace astrarium
