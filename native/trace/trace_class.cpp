// What is small and shared: texts, growth of columns and rows, the hash of a template.
#include "trace_class.hpp"

namespace astrarium::trace {

std::int32_t Strings::add(std::string_view text) {
    const auto found = index_.find(text);
    if (found != index_.end()) return found->second;
    const auto number = static_cast<std::int32_t>(all_.size());
    all_.emplace_back(text);
    index_.emplace(std::string(text), number);
    return number;
}

void Columns::resize(std::size_t nodes) {
    for (auto* column : {&id, &start, &duration, &offset, &name_offset}) column->resize(nodes);
    for (auto* column : {&size, &name_size, &dims}) column->resize(nodes);
    for (auto* column : {&type, &is_cpu_op, &dims_count}) column->resize(nodes);
    for (auto* column : {&present, &wrong}) column->resize(nodes);
    for (auto* column : {&comm_type, &comm_size, &comm_priority, &tensor_size, &stream}) column->resize(nodes);
    for (auto* column : {&data_ptr, &ctrl_ptr}) column->resize(nodes + 1);
    num_ops.resize(nodes);
    data_dep.reserve(nodes);
}

void Rows::append(std::size_t count) {
    group.resize(group.size() + count, -1);
    for (auto* column : {&source, &destination, &tag}) column->resize(column->size() + count, -1);
}

void Rows::truncate(std::size_t count) {
    group.resize(count);
    for (auto* column : {&source, &destination, &tag}) column->resize(count);
}

namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

std::uint64_t mix_bytes(std::uint64_t hash, const std::uint8_t* data, std::size_t size) {
    for (; size >= 8; data += 8, size -= 8) {
        std::uint64_t word;
        std::memcpy(&word, data, 8);
        hash = mix(hash, word);
    }
    std::uint64_t last = size;
    for (std::size_t i = 0; i < size; i++) last = last << 8 | data[i];
    return mix(hash, last);
}

}  // namespace

std::uint64_t TraceClass::hash_template() const {
    std::uint64_t hash = 0;
    std::size_t at = 0;
    for (const Hole& hole : holes_) {
        hash = mix_bytes(hash, data_.data + at, hole.offset - at);
        const auto kind = static_cast<std::uint64_t>(hole.kind), attr = static_cast<std::uint64_t>(hole.attr);
        hash = mix(hash, kind << 16 | attr << 8 | static_cast<std::uint64_t>(hole.filling));
        at = hole.offset + hole.size;
    }
    return mix_bytes(hash, data_.data + at, data_.size - at);
}

}  // namespace astrarium::trace
