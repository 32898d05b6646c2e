// Custom collectives: a small program of sends, receives and delays per position. Nodes that are free at once start in the
// order of ASTRA-sim's set of them; `child` lists children in the order in which it frees them.

inline void Astra::start_custom(std::uint32_t s) {
    const Stream& stream = streams_[s];
    const Custom& custom = *plan_.collectives[instances_[stream.instance].collective].custom;
    const auto which = static_cast<std::size_t>(custom.program_of[stream.position]);
    const Program& program = custom.programs[which];
    CustomRun& run = custom_[s];
    run = CustomRun{};
    run.left.assign(program.parents.begin(), program.parents.end());
    run.ready.assign(custom.roots[which].begin(), custom.roots[which].end());
    issue_custom(s);
}

inline void Astra::issue_custom(std::uint32_t s) {
    const Stream stream = streams_[s];
    const Instance& instance = instances_[stream.instance];
    const Custom& custom = *plan_.collectives[instance.collective].custom;
    const auto which = static_cast<std::size_t>(custom.program_of[stream.position]);
    const Program& program = custom.programs[which];
    CustomRun& run = custom_[s];
    if (run.ready.empty()) return;
    const std::vector<std::uint32_t> ready = hash_order(run.ready, program.node_id.begin(), run.grown);
    run.ready.clear();
    run.ongoing += static_cast<std::uint32_t>(ready.size());
    const auto real = [&](std::size_t slot) {
        return membership_.rank(instance.group, static_cast<std::uint32_t>(custom.slot_peer[which][slot]));
    };
    for (const std::uint32_t node : ready) {
        const auto slot = static_cast<std::size_t>(program.slot[node] < 0 ? 0 : program.slot[node]);
        const Callback done{Callback::custom, s, node};
        switch (static_cast<Kind>(program.kind[node])) {
            case Kind::send: send({custom.slot_tag[which][slot], program.size[node], stream.rank, real(slot)}, done, true); break;
            case Kind::recv: receive({custom.slot_tag[which][slot], program.size[node], real(slot), stream.rank}, done, true); break;
            default: own(stream.rank, program.duration[node], custom_done, s, node);
        }
    }
}

inline void Astra::custom_completed(std::uint32_t s, std::uint32_t node) {
    CustomRun& run = custom_[s];
    const Stream& stream = streams_[s];
    const Custom& custom = *plan_.collectives[instances_[stream.instance].collective].custom;
    const Program& program = custom.programs[static_cast<std::size_t>(custom.program_of[stream.position])];
    --run.ongoing;
    for (std::int32_t e = program.child_ptr[node]; e < program.child_ptr[node + 1]; ++e) {
        const auto child = static_cast<std::size_t>(program.child[static_cast<std::size_t>(e)]);
        if (--run.left[child] == 0) run.ready.push_back(static_cast<std::uint32_t>(child));
    }
    issue_custom(s);
    if (custom_[s].ongoing == 0) {
        custom_.erase(s);
        proceed(s);
    }
}
