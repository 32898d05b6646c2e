// ASTRA-sim's shared local bus ("model-shared-bus"): a LogGP pair between NPU (side 0) and memory agent (side 1), and
// behind side 0 a second pair between memory agent (2) and memory (3). A request crosses the memory pair, then the bus;
// there it may be processed, sent back, and retired, each of which crosses the memory pair once more.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>

#include "plan/plan.hpp"

namespace astrarium {

class Bus {
public:
    using Schedule = std::function<void(Tick, std::uint32_t)>;  // after that many ps call run(code)
    using Finish = std::function<void(std::uint32_t stream, bool reduces)>;

    Bus(const SharedBus& setting, Schedule schedule, Finish finish)
        : setting_(setting), schedule_(std::move(schedule)), finish_(std::move(finish)) {
        for (int s = 0; s < 4; ++s) sides_[s].partner = s ^ 1, sides_[s].G = s < 2 ? setting.G : 0.0038;
    }

    void request(bool to_ma, std::int64_t bytes, bool reduces, bool sends_back, std::uint32_t stream, Tick now) {
        auto made = std::make_shared<Request>();
        made->size = static_cast<std::int32_t>(bytes);  // as ASTRA-sim's bus keeps it
        made->process = reduces, made->reduces = reduces;
        made->send_back = sends_back, made->stream = stream;
        read(to_ma ? 0 : 1, std::move(made), now);
    }

    void run(std::uint32_t code, Tick now) {
        const int side = static_cast<int>(code >> 2);
        Side& s = sides_[side];
        switch (static_cast<Step>(code & 3)) {
            case sent:
                s.last = now, s.before = s.state, s.state = idle;
                ++s.reads_in_a_row;
                break;
            case arrived: on_arrived(side, now); break;
            case processed: on_processed(side, now); break;
        }
        consider(side, now);
    }

private:
    static constexpr int threshold = 8;
    enum Step : std::uint32_t { sent, arrived, processed };
    enum State { idle, sending, receiving };
    enum class Then { end, send, process, retire };
    struct Request {
        std::int64_t size = 0;
        bool process = false, send_back = false, reduces = false;
        std::uint32_t stream = 0;
        Then then = Then::end;           // what side 0 does when this has crossed the memory pair
        std::shared_ptr<Request> outer;  // set on a crossing of the memory pair
    };
    using Ref = std::shared_ptr<Request>;
    struct Side {
        int partner = 0;
        double G = 0;
        State state = idle, before = idle;
        Tick last = 0;
        int reads_in_a_row = 0;
        bool processing_busy = false;
        std::list<Ref> sends, receives, processing;
    };

    // Side 0 first lets its request cross the memory pair, from memory.
    void read(int side, Ref request, Tick now) {
        if (side == 0) return cross(std::move(request), Then::send, 3, false, now);
        Side& s = sides_[side];
        s.sends.push_back(std::move(request));
        if (s.state == idle) consider(side, now);
    }

    void cross(Ref outer, Then then, int from, bool send_back, Tick now) {
        auto inner = std::make_shared<Request>();
        inner->size = outer->size, inner->send_back = send_back;
        outer->then = then;
        inner->outer = std::move(outer);
        read(from, std::move(inner), now);
    }

    void consider(int side, Tick now) {
        Side& s = sides_[side];
        if (s.state != idle || s.sends.empty()) return;
        Side& partner = sides_[s.partner];
        if (s.reads_in_a_row > threshold && !partner.sends.empty() && partner.reads_in_a_row <= threshold) {
            if (partner.state == idle) consider(s.partner, now);
            return;
        }
        next_read(side, now);
    }

    void next_read(int side, Tick now) {
        Side& s = sides_[side];
        Tick offset = setting_.o;
        const Tick since = now / 1000 - s.last / 1000;  // its clock counts whole ns
        if (s.before == sending && setting_.o + since <= setting_.g) offset = setting_.g - since;
        Ref request = s.sends.front();
        s.sends.pop_front();
        Side& p = sides_[s.partner];
        p.receives.push_back(request);
        p.before = p.state, p.state = receiving, p.reads_in_a_row = 0;
        const double fixed = static_cast<double>(offset);
        const double wire = std::max(s.G * static_cast<double>(request->size - 1), -fixed);  // of no bytes: not back in time
        schedule_(static_cast<Tick>(fixed + wire + static_cast<double>(setting_.L) + static_cast<double>(setting_.o)) * 1000,
                  static_cast<std::uint32_t>(s.partner) << 2 | arrived);
        s.state = sending;
        schedule_(static_cast<Tick>(fixed + wire) * 1000, static_cast<std::uint32_t>(side) << 2 | sent);
    }

    void on_arrived(int side, Tick now) {
        Side& s = sides_[side];
        s.last = now, s.before = s.state;
        if (s.receives.size() < 2) s.state = idle;
        Ref request = s.receives.front();
        s.receives.pop_front();
        if (request->process) {
            request->process = false;
            if (side == 0) cross(std::move(request), Then::process, 2, true, now);
            else s.processing.push_back(std::move(request));
            start_processing(side);
        } else {
            pass_on(side, std::move(request), now);
        }
    }

    void on_processed(int side, Tick now) {
        Side& s = sides_[side];
        s.processing_busy = false;
        Ref request = s.processing.front();
        s.processing.pop_front();
        pass_on(side, std::move(request), now);
        start_processing(side);
    }

    void pass_on(int side, Ref request, Tick now) {
        if (request->send_back) {
            request->send_back = false;
            if (side == 0) return cross(std::move(request), Then::send, 2, true, now);
            sides_[side].sends.push_back(std::move(request));
        } else if (side == 0) {
            cross(std::move(request), Then::retire, 2, false, now);
        } else {
            through(request, now);
        }
    }

    void through(const Ref& request, Tick now) {
        if (!request->outer) return finish_(request->stream, request->reduces);
        Ref outer = request->outer;
        Side& s = sides_[0];
        switch (outer->then) {
            case Then::send: s.sends.push_back(outer); break;
            case Then::process:
                s.processing.push_back(outer);
                start_processing(0);
                break;
            case Then::retire: finish_(outer->stream, outer->reduces); break;
            case Then::end: break;
        }
        consider(0, now);
    }

    void start_processing(int side) {
        Side& s = sides_[side];
        if (s.processing_busy || s.processing.empty()) return;
        s.processing_busy = true;
        schedule_((s.processing.front()->size / 100 * setting_.reduction_delay + 50) * 1000,
                  static_cast<std::uint32_t>(side) << 2 | processed);
    }

    SharedBus setting_;
    Schedule schedule_;
    Finish finish_;
    Side sides_[4];
};

}  // namespace astrarium
