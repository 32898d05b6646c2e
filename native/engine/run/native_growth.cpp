// Native rule book, a workload that decides as it runs.
#include "run/native.hpp"

namespace astrarium {

void Native::take_work() {
    for (const Handed& work : handed_) {
        plugins_.growth->add(work);
        if (record_) start_.push_back(-1), end_.push_back(-1);
        if (ranks_[work.rank].left++ == 0) ++unfinished_;
        make_ready(work.rank, work.node);
    }
    handed_.clear();
}

Outcome run_source(Plan& plan, ForeignWork& source, Plugins plugins) {
    Growth growth(plan, source);
    plugins.growth = &growth;
    return Native(plan, true, false, plugins).run();
}

}  // namespace astrarium
