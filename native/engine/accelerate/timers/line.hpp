// What happens on a line: the members of a collective that differ in one dim only, in its phases over that dim. Its messages meet no
// others, so it depends on nothing but when its members' chunks come.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "media/distance.hpp"
#include "plan/run.hpp"

namespace astrarium {

// The phases of a line as numbers; immutable.
class Line {
public:
    struct Step {  // one phase
        const Schedule* schedule;
        int stride, n;                                     // along the line: which members take part together
        std::vector<std::pair<int, std::int64_t>> chunks;  // how many, bytes of a block
    };
    struct Out {
        std::vector<Tick> exits;    // [members * chunks] when each chunk leaves the last phase
        std::vector<PortUse> uses;  // [members]
        std::uint64_t events = 0;
    };

    // `places`: coordinates of the members in the dim, ascending in rank.
    Line(const Dim& dim, const std::vector<int>& places, const std::vector<Step>& steps, int window, Tick endpoint, double reduction_rate);
    // Whether each message takes time: then nothing of one instant depends on what other lines do in it.
    bool usable() const { return usable_; }
    int members() const { return n_; }
    int chunks() const { return chunks_; }
    // From when each chunk could enter the first phase, [members * chunks].
    Out run(const std::vector<Tick>& from) const;

private:
    friend class LineRun;
    struct Send {
        std::uint32_t number, to, receive, needs, out, in;
        Tick latency;
        int charged;
        std::int64_t blocks;
        std::uint32_t arrival = 0;  // its place among the sends of a phase that arrive in one instant
    };
    struct Part {                                                     // one phase
        std::vector<Send> sends;                                      // by member, in order of release
        std::vector<std::uint32_t> first_send, first_receive, place;  // [members + 1] twice; send number -> place in `sends`
        std::vector<std::uint8_t> starts;                             // per member: some send needs nothing
        std::vector<int> kind;                                        // per chunk: which sizes
        std::vector<std::vector<Tick>> serial, delay;                 // per kind: of sends (as in `sends`), of receives
        std::size_t receives = 0;
        std::vector<std::pair<std::uint32_t, std::uint32_t>> by_arrival;  // member, number of the send
    };
    static void number_arrivals(Part& part);
    void add_part(const Dim& dim, const std::vector<int>& places, const Step& step, Tick endpoint, double rate);
    void add_sends(Part& part, const Geometry& geometry, const Dim& dim, const std::vector<int>& places, const Step& step,
                   int member) const;

    int n_, chunks_ = 0, window_;
    Tick endpoint_;
    bool usable_ = true;
    std::size_t ports_ = 1;
    std::vector<Part> parts_;
};

}  // namespace astrarium
