// packets: messages as packets over links with queues, in windows of the shortest latency (design/0017). With the same integers:
// astrarium.oracle.packets.
#include <algorithm>

#include "clock/interrupt.hpp"
#include "media/packets/check.hpp"
#include "media/packets/net.hpp"

namespace astrarium {
namespace {

class Packets final : public Medium {
public:
    Packets(const Plan& plan, bool record, Carried& run) : net_(plan, record, run), width_(width()), windows_(units(), width_, horizon()) {
        transport_ = packets::transport_of(net_.rules).open(net_, windows_);
    }

    void ask(MessageId id, Tick now) override {
        const Flight& flight = net_.run.flight(id);
        if (flight.source == flight.destination) return net_.run.deliver(id, now);
        if (net_.epochs) visit_epochs(now), net_.epochs->go_to(now);
        const std::uint32_t cargo = net_.load(id, flight, now);
        const packets::Cargo& c = net_.cargos[cargo];
        transport_->ask(cargo, net_.ways->first(c.source, c.destination, c.pair), now);
        wake_at(windows_.end(windows_.of(now)));
    }

    // At the end of a window, or later: all that is over by now, window by window.
    void wake(std::uint32_t, Tick now) override {
        if (due_ <= now) due_ = never;
        for (std::int64_t window; (window = windows_.first()) != packets::Windows::nothing;) {
            const Tick until = windows_.end(window), begin = until - width_;
            if (until > now) return wake_at(until);
            if (net_.epochs) run_by_epochs(window, begin, until);
            else transport_->run(windows_.take(window), begin, until);
            if (const std::uint64_t more = (net_.hops >> 16) - (hops_ >> 16)) {
                count_progress(now, more << 16);
                stop_if_interrupted();
            }
            hops_ = net_.hops;
        }
    }

    Traffic* traffic() override { return &net_.traffic; }
    std::size_t first_link(const Flight& f) const override {
        return net_.ways->first(f.source, f.destination, net_.ways->pair(f.source, f.destination));
    }

    std::vector<std::string> waits(Tick, std::uint64_t) const override {
        std::vector<std::string> out;
        for (std::uint32_t link = 0; link < net_.ways->wires.size() && !net_.rates.empty(); ++link)
            if (const Tick since = net_.rates.stops(link); since != never && transport_->keeps(link))
                out.push_back("link " + std::to_string(link) + " stands still for ever, since " + std::to_string(since) + " ps");
        transport_->explain(out);
        return out;
    }

    void report(Outcome& out) const override {
        out.packets.hops = static_cast<std::int64_t>(net_.hops);
        if (!net_.record) return;
        net_.report(out.packets);
        transport_->report(out.packets);
    }

private:
    // Windows in which an epoch begins are run, whatever else is in them; but for those before the first message.
    void visit_epochs(Tick now) {
        for (; visited_ < net_.epochs->begins().size(); ++visited_) {
            const Tick begin = net_.epochs->begins()[visited_];
            if (windows_.of(begin) < windows_.of(now)) {
                ++epoch_;
                continue;
            }
            windows_.mark(begin, 0);
            wake_at(windows_.end(windows_.of(begin)));
        }
    }

    // A window in parts, each with the routes of its epoch. What a part leaves to do may lie in the next one.
    void run_by_epochs(std::int64_t window, Tick begin, Tick until) {
        std::vector<std::uint32_t> units = windows_.take(window, true);
        const std::vector<Tick>& begins = net_.epochs->begins();
        for (; epoch_ < begins.size() && begins[epoch_] < until; ++epoch_) {
            const Tick now = std::max(begin, begins[epoch_]);
            if (begin < now) run_part(units, begin, now);
            net_.epochs->go_to(now);
            transport_->reroute(now);
            add_marked(units, window);
            begin = now;
        }
        windows_.take(window);
        run_part(units, begin, until);
    }

    void run_part(std::vector<std::uint32_t>& units, Tick begin, Tick until) {
        net_.epochs->go_to(begin);
        transport_->run(units, begin, until);
    }

    void add_marked(std::vector<std::uint32_t>& units, std::int64_t window) {
        const std::vector<std::uint32_t>& marked = windows_.take(window, true);
        units.insert(units.end(), marked.begin(), marked.end());
        std::sort(units.begin(), units.end());
        units.erase(std::unique(units.begin(), units.end()), units.end());
    }

    std::size_t units() const {
        return packets::transport_of(net_.rules).by_node ? static_cast<std::size_t>(net_.ways->nodes) : net_.ways->wires.size();
    }

    Tick width() const {
        Tick least = 1000;  // where there is no link
        for (const packets::Wire& wire : net_.ways->wires)
            least = &wire == net_.ways->wires.data() ? wire.latency : std::min(least, wire.latency);
        return least;
    }

    Tick horizon() const {
        Tick most = 0;
        for (std::size_t k = 0; k < net_.ways->wires.size(); ++k)
            most = std::max(most, add(net_.full[k], add(net_.ways->wires[k].latency, net_.ways->wires[k].latency)));
        return most;
    }

    void wake_at(Tick when) {
        if (when >= due_) return;
        due_ = when;
        net_.run.wake(0, when, Carried::Turn::before);
    }

    packets::Net net_;
    const Tick width_;
    packets::Windows windows_;
    std::unique_ptr<packets::Transport> transport_;
    Tick due_ = never;  // the earliest wake that is scheduled
    std::uint64_t hops_ = 0;
    std::size_t visited_ = 0, epoch_ = 0;  // begins of epochs whose windows are marked; that are over
};

const MediumKind kind{.name = "packets",
                      .takes_switches = true,
                      .takes_graph = true,
                      .pulls = packets::pulls,
                      .never_folds = "packets queue at links",
                      .check = packets::check,
                      .open = open_as<Packets>};
const Registered registered(kind);

}  // namespace
}  // namespace astrarium
