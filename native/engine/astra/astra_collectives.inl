// Collectives: instances of a group, chunks as streams, per-dim queues.

inline std::uint32_t Astra::take_streams(std::uint32_t count) {
    auto& free = stream_free_[count];
    if (!free.empty()) {
        const std::uint32_t base = free.back();
        free.pop_back();
        return base;
    }
    const auto base = static_cast<std::uint32_t>(streams_.size());
    streams_.resize(streams_.size() + count);
    return base;
}

// How many sources a phase's receives tell apart: ring 1, halving_doubling one per bit and way, tree 3, direct one per offset.
static inline std::uint32_t sources(const Phase& phase) {
    switch (phase.algorithm) {
        case Algorithm::ring: return 1;
        case Algorithm::halving_doubling: return 32;
        case Algorithm::double_binary_tree: return 3;
        case Algorithm::direct: return static_cast<std::uint32_t>(phase.n);
        default: return 0;
    }
}

inline std::uint32_t Astra::instance_for(std::uint32_t group, std::uint32_t position, const Collective& c,
                                         std::uint32_t id, std::uint32_t rank, std::uint32_t node) {
    Group& g = groups_[group];
    if (g.next.empty()) g.next.resize(alone_ ? 1 : membership_.size(group));
    const std::uint32_t serial = g.next[position]++;
    for (const auto& [number, instance] : g.open) {
        if (number != serial) continue;
        const Collective& other = plan_.collectives[instances_[instance].collective];
        if (instances_[instance].collective != id && (other.op != c.op || other.size != c.size))
            throw BadTrace("rank " + std::to_string(rank) + ", " + describe(rank, node) + ": collective number " +
                           std::to_string(serial + 1) + " of its group has op " + std::to_string(c.op) + " and " +
                           std::to_string(c.size) + " bytes here, but another member issued op " +
                           std::to_string(other.op) + " with " + std::to_string(other.size) +
                           " bytes: the ranks issue this group's collectives in different orders");
        return instance;
    }
    if (instance_free_.empty()) {
        instance_free_.push_back(static_cast<std::uint32_t>(instances_.size()));
        instances_.emplace_back();
    }
    const std::uint32_t at = instance_free_.back();
    instance_free_.pop_back();
    Instance& i = instances_[at];
    const std::uint32_t members = alone_ ? 1 : membership_.size(group), chunks = static_cast<std::uint32_t>(c.total_chunks);
    if (static_cast<std::uint64_t>(members) * chunks > 1u << 30) throw Unsupported("a collective of more than 2^30 chunks of members");
    i.collective = id, i.group = group, i.members = members, i.serial = serial_++;
    i.issued = i.done = 0, i.live = true;
    i.phases = static_cast<std::uint32_t>(c.max_phases);
    i.node.assign(members, none);
    i.left.assign(members, chunks);
    i.route.assign(static_cast<std::size_t>(members) * chunks * i.phases, 0);
    i.phase_offset.clear();
    i.surplus_width = 0;
    for (std::uint32_t p = 0; p < i.phases; ++p) {  // wide enough for every chunk kind
        std::uint32_t width = 0;
        for (const Chunk& chunk : c.chunks)
            if (p < chunk.phases.size()) width = std::max(width, sources(chunk.phases[p]));
        i.phase_offset.push_back(i.surplus_width);
        i.surplus_width += width;
    }
    i.surplus.assign(static_cast<std::size_t>(members) * chunks * i.surplus_width, 0);
    i.streams = take_streams(members * chunks);
    for (std::uint32_t p = 0; p < members; ++p)
        for (std::uint32_t k = 0; k < chunks; ++k) {
            Stream& stream = streams_[i.streams + p * chunks + k];
            stream.instance = at, stream.position = p, stream.chunk = k, stream.rank = membership_.rank(group, p);
        }
    g.open.emplace_back(serial, at);
    return at;
}

inline const std::vector<Phase>& Astra::phases_of(const Stream& s) const {
    const Collective& c = plan_.collectives[instances_[s.instance].collective];
    std::uint32_t chunk = s.chunk;
    for (const Chunk& kind : c.chunks) {
        if (chunk < static_cast<std::uint32_t>(kind.repeat)) return kind.phases;
        chunk -= static_cast<std::uint32_t>(kind.repeat);
    }
    return c.chunks.back().phases;
}

inline void Astra::issue_collective(std::uint32_t rank, std::uint32_t node) {
    const Program& program = plan_.program(rank);
    const auto at = static_cast<std::size_t>(plan_.slot_ptr[rank]) + static_cast<std::size_t>(program.slot[node]);
    const auto id = static_cast<std::uint32_t>(plan_.slot_a[at]);
    const std::uint32_t group =
        plan_.slot_b[at] < 0 ? membership_.all() : static_cast<std::uint32_t>(plan_.slot_b[at]);
    const Collective& c = plan_.collectives[id];
    const std::uint32_t position = membership_.position(group, rank);
    if (position == none)
        throw BadTrace("rank " + std::to_string(rank) + ", " + describe(rank, node) +
                          ": the rank is not a member of the collective's group");
    Rank& r = ranks_[rank];
    const int priority = policy_.lifo > 0 ? r.priority_counter++ : policy_.lifo < 0 ? r.priority_counter-- : plan_.slot_c[at];
    const std::uint32_t instance = instance_for(group, position, c, id, rank, node);
    Instance& i = instances_[instance];
    i.node[position] = node;
    ++i.issued;
    if (c.custom || c.total_chunks == 0 || c.max_phases == 0) {
        if (!c.custom) {  // nothing to move
            i.left[position] = 0;
            if (++i.done == i.members) i.live = false;
            own(rank, 0, node_done, rank, node);
            return;
        }
    }
    start_chunks(instance, position, rank, priority);
}

inline void Astra::start_chunks(std::uint32_t instance, std::uint32_t position, std::uint32_t rank, int priority) {
    const Collective& c = plan_.collectives[instances_[instance].collective];
    issuing_ = true;
    for (std::uint32_t chunk = 0; chunk < static_cast<std::uint32_t>(c.total_chunks); ++chunk) {
        const std::uint32_t s = instances_[instance].streams + position * static_cast<std::uint32_t>(c.total_chunks) + chunk;
        Stream& stream = streams_[s];
        stream.phase_number = -1, stream.priority = priority, stream.queue = none, stream.begun = clock_.now;
        if (!c.custom) choose_routes(instances_[instance], position, chunk, rank);
        proceed(s);
    }
    issuing_ = false;
}

// Queue, direction and tree of every phase are drawn when the collective is issued; the counters are the rank's own.
inline void Astra::choose_routes(Instance& instance, std::uint32_t position, std::uint32_t chunk, std::uint32_t rank) {
    const Collective& c = plan_.collectives[instance.collective];
    const Stream& s = streams_[instance.streams + position * static_cast<std::uint32_t>(c.total_chunks) + chunk];
    const auto& phases = phases_of(s);
    const auto q = static_cast<std::uint32_t>(policy_.queues_per_dim);
    const std::size_t dims = plan_.network.dims.size();
    for (std::size_t p = 0; p < phases.size(); ++p) {
        const auto dim = static_cast<std::uint32_t>(phases[p].dim < 0 ? 0 : phases[p].dim);
        Allocator& a = allocators_[rank * dims + dim];
        std::uint32_t queue = 0, backwards = 0;
        if (phases[p].pick == Pick::any) {
            backwards = q > 1 && a.any >= q / 2;
            queue = a.any++;
            if (a.any >= q) a.any = 0;
        } else if (phases[p].pick == Pick::first_half) {
            queue = a.first++;
            if (a.first >= q / 2) a.first = 0;
        } else {
            backwards = 1;
            queue = a.last++;
            if (a.last >= q) a.last = q / 2;
        }
        std::uint32_t tree = 0;
        if (phases[p].algorithm == Algorithm::double_binary_tree)
            tree = tree_turn_[(rank * 16 + static_cast<std::size_t>(c.op)) * dims + dim]++ & 1u;
        instance.route[(static_cast<std::size_t>(position) * static_cast<std::size_t>(c.total_chunks) + chunk) * instance.phases + p] =
            static_cast<std::uint16_t>((dim * q + queue) | backwards << 14 | tree << 15);
    }
}

// A chunk enters its next phase, or ends. The order of the steps is ASTRA-sim's: the node of a finished collective
// completes, and may issue more, before the chunk leaves its queue.
inline void Astra::proceed(std::uint32_t s) {
    const bool custom = plan_.collectives[instances_[streams_[s].instance].collective].custom.has_value();
    const std::uint32_t rank = streams_[s].rank, previous = streams_[s].queue;
    const auto total = custom ? 1 : static_cast<std::int32_t>(phases_of(streams_[s]).size());
    const bool last = streams_[s].phase_number + 1 >= total;
    if (last) member_chunk_done(s);
    if (!last) {
        Stream& stream = streams_[s];
        const Instance& instance = instances_[stream.instance];
        ++stream.phase_number;
        stream.initialized = false;
        if (custom) {
            stream.queue = 0;
        } else {
            const Collective& c = plan_.collectives[instance.collective];
            const std::uint16_t route =
                instance.route[(static_cast<std::size_t>(stream.position) * static_cast<std::size_t>(c.total_chunks) + stream.chunk) *
                                   instance.phases + static_cast<std::size_t>(stream.phase_number)];
            stream.queue = route & 0x3fff;
            stream.direction = route >> 14 & 1 ? -1 : 1;
            stream.tree_min = route >> 15;
            enter_phase(s);
        }
        insert_stream(rank, stream.queue, s);
    }
    if (previous != none) {
        --running_[static_cast<std::size_t>(rank) * queue_count_ + previous];
        start_waiting(rank, previous);
    }
    if (last) {
        Instance& instance = instances_[streams_[s].instance];
        if (instance.left[streams_[s].position] == 0 && ++instance.done == instance.members) {
            const auto chunks = static_cast<std::uint32_t>(custom ? 1 : plan_.collectives[instance.collective].total_chunks);
            stream_free_[instance.members * chunks].push_back(instance.streams);
            instance.live = false;
            auto& open = groups_[instance.group].open;
            const std::uint32_t at = streams_[s].instance;
            open.erase(std::find_if(open.begin(), open.end(), [at](const auto& o) { return o.second == at; }));
            instance_free_.push_back(at);
        }
    } else {
        start_waiting(rank, streams_[s].queue);
    }
}

inline void Astra::member_chunk_done(std::uint32_t s) {
    Instance& instance = instances_[streams_[s].instance];
    const std::uint32_t position = streams_[s].position;
    if (--instance.left[position] > 0) return;
    if (alone_)
        alone_done_ = clock_.now;
    else
        complete(streams_[s].rank, instance.node[position]);
}

inline void Astra::insert_stream(std::uint32_t rank, std::uint32_t queue, std::uint32_t s) {
    const std::size_t at = static_cast<std::size_t>(rank) * queue_count_ + queue;
    if (watch_ && !issuing_) note_insert(at, s);
    auto& waiting = queues_[at];
    const std::int32_t priority = streams_[s].priority;
    streams_[s].next = none;
    auto found = waiting.end();
    while (found != waiting.begin() && std::prev(found)->priority > priority) --found;
    if (found == waiting.begin() || std::prev(found)->priority < priority) {
        waiting.insert(found, {priority, s, s});
        return;
    }
    streams_[std::prev(found)->last].next = s;
    std::prev(found)->last = s;
}

inline void Astra::note_insert(std::size_t queue, std::uint32_t s) {
    if (settled_ != clock_.now) settle_ties();
    settled_ = clock_.now;
    if (last_insert_[queue].first == clock_.now) {
        auto it = std::find_if(tied_.begin(), tied_.end(), [&](const Tied& t) { return t.queue == queue && t.instant == clock_.now; });
        if (it == tied_.end()) it = tied_.insert(it, Tied{queue, clock_.now, {last_insert_[queue].second}});
        it->streams.push_back(s);
    }
    last_insert_[queue] = {clock_.now, s};
}

// At the end of an instant: of streams that entered together either all have started, or none.
inline void Astra::settle_ties() {
    std::erase_if(tied_, [&](const Tied& t) {
        std::size_t waiting = 0;
        for (const std::uint32_t s : t.streams)
            waiting += !streams_[s].initialized && static_cast<std::size_t>(streams_[s].rank) * queue_count_ + streams_[s].queue == t.queue;
        tie_ |= waiting > 0 && waiting < t.streams.size();
        return waiting == 0;
    });
}

inline void Astra::start_waiting(std::uint32_t rank, std::uint32_t queue) {
    const std::size_t at = static_cast<std::size_t>(rank) * queue_count_ + queue;
    if (!tied_.empty() && settled_ != clock_.now) {
        settle_ties();
        settled_ = clock_.now;
    }
    while (running_[at] < threshold_ && !queues_[at].empty()) {
        Waiting& best = queues_[at].back();
        const std::uint32_t s = best.first;
        best.first = streams_[s].next;
        if (best.first == none) queues_[at].pop_back();
        streams_[s].initialized = true;
        init_machine(s);
        ++running_[at];
    }
}
