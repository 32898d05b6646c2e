// A rank's file again, byte for byte: the literals of its class and its own holes.
#include "trace_class.hpp"

namespace astrarium::trace {

std::vector<std::uint8_t> TraceClass::rebuild(std::size_t row) const {
    const std::vector<std::uint8_t>& difference = differences_.at(row);
    std::vector<std::uint8_t> out;
    out.reserve(data_.size + difference.size());
    Cursor changes(difference.data(), difference.data(), difference.data() + difference.size());
    std::size_t at = 0;
    for (std::uint64_t number = 0; !changes.done();) {
        number += changes.varint();
        const Span bytes = changes.delimited();
        const Hole& hole = holes_.at(number);
        out.insert(out.end(), data_.data + at, data_.data + hole.offset);
        out.insert(out.end(), bytes.data, bytes.data + bytes.size);
        at = hole.offset + hole.size;
    }
    out.insert(out.end(), data_.data + at, data_.data + data_.size);
    return out;
}

}  // namespace astrarium::trace
