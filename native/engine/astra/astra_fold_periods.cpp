// ASTRA-sim's rules, one rank per class: the state of a run as words, and what skipping periods changes.
#include <algorithm>

#include "astra/astra_fold.hpp"

namespace astrarium {

void AstraFold::look_for_periods() {
    if (!recurrence_->worth_it(events_)) return recurrence_->pass();
    Tick horizon = now_;  // what a collective whose members come may still ask about
    for (const auto& [key, meeting] : meetings_) horizon = std::min(horizon, meeting.first);
    recurrence_->begin(now_, horizon);
    write_classes();
    write_meetings();
    write_pending();
    std::vector<std::int64_t> counts{static_cast<std::int64_t>(events_)};
    counts.insert(counts.end(), busy_.begin(), busy_.end());
    if (const auto jump = recurrence_->end(std::move(counts))) skip_periods(*jump);
}

void AstraFold::write_classes() {
    Recurrence& to = *recurrence_;
    to.until(links_until_);
    for (std::uint32_t c = 0; c < class_.size(); ++c) {
        const Class& k = class_[c];
        to.word(k.ongoing);
        to.lanes(c, k.inflight, k.ready, {});
    }
}

void AstraFold::write_meetings() {
    Recurrence& to = *recurrence_;
    for (std::size_t kind = 0; kind < kinds_.count(); ++kind)
        for (const std::uint32_t c : kinds_.participants(kind))
            to.word(static_cast<std::int64_t>(class_[c].issued_on[kind]) - issued(kind));
    to.count(meetings_.size());
    for (const auto& [key, m] : meetings_) {
        const std::size_t kind = key.first;
        to.count(kind), to.word(static_cast<std::int64_t>(key.second) - issued(kind)), to.word(m.collective), to.time(m.first);
        for (std::size_t i = 0; i < m.node.size(); ++i) {
            to.word(m.node[i] != none);
            if (m.node[i] != none) to.time(m.at[i]), to.node(kinds_.participants(kind)[i], m.node[i]);
        }
    }
    for (const auto& [key, box] : mail_) {
        if (box.empty()) continue;
        to.count(box.size()), to.word(key.first), to.word(key.second);
        for (const Mail& mail : box) {
            to.word(mail.sent);
            if (!mail.sent) to.node(key.first, mail.node);
            else to.time(std::max(mail.there, now_));
        }
    }
    to.count(0);  // no more mail
}

void AstraFold::write_pending() {
    Recurrence& to = *recurrence_;
    std::vector<Event> events = pending_.all();
    const auto key = [](const Event& e) { return std::tuple(e.time, e.cls, e.node); };
    std::sort(events.begin(), events.end(), [&](const Event& x, const Event& y) { return key(x) < key(y); });
    to.count(events.size());
    for (const Event& e : events) to.time(e.time), to.word(e.cls), to.node(e.cls, e.node);
}

void AstraFold::skip_periods(const Recurrence::Jump& jump) {
    recurrence_->jump(jump);
    const auto periods = static_cast<std::int64_t>(jump.periods);
    skipped_ = add(skipped_, times(periods, jump.time));
    const std::uint64_t events = jump.periods * static_cast<std::uint64_t>(jump.counts[0]);
    events_ += events, counted_ += events;
    for (std::uint32_t c = 0; c < class_.size(); ++c) {
        class_[c].node_base = recurrence_->base(c);
        class_[c].left -= static_cast<std::uint32_t>(jump.periods) * jump.nodes[c];
        busy_[c] += periods * jump.counts[1 + c];
    }
}

}  // namespace astrarium
