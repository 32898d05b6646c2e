// Does another file fit the template of a class? If so, what fills its holes?
#include "trace_class.hpp"

namespace astrarium::trace {
namespace {

void put_varint(std::vector<std::uint8_t>& into, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) into.push_back(static_cast<std::uint8_t>(value | 0x80));
    into.push_back(static_cast<std::uint8_t>(value));
}

}  // namespace

class Matcher {
public:
    Matcher(TraceClass& to, Span data, Strings& strings)
        : to_(to), file_(data.data, data.data, data.data + data.size), strings_(strings), first_(to.rows_.group.size()) {}

    bool run() {
        to_.rows_.append(to_.columns_.comm_node.size());
        bool fits = false;
        try {
            fits = match();
        } catch (const ParseError&) {
            fits = false;  // not this class; the full parse will say what is wrong with the file
        }
        if (fits) to_.differences_.push_back(std::move(difference_));
        else to_.rows_.truncate(first_);
        return fits;
    }

private:
    bool match() {
        std::size_t at = 0;
        for (std::size_t i = 0; i < to_.holes_.size(); i++) {
            const Hole& hole = to_.holes_[i];
            if (!literal(at, hole.offset)) return false;
            const std::uint8_t* start = file_.at();
            if (!enter(hole)) return false;
            note(i, hole, Span{start, static_cast<std::size_t>(file_.at() - start)});
            at = hole.offset + hole.size;
        }
        return literal(at, to_.data_.size) && file_.done();
    }

    bool literal(std::size_t from, std::size_t to) {
        const std::size_t size = to - from;
        if (size > file_.left() || std::memcmp(to_.data_.data + from, file_.at(), size) != 0) return false;
        file_ = Cursor(to_base(), file_.at() + size, file_.end());
        return true;
    }

    bool enter(const Hole& hole) {
        switch (hole.kind) {
            case HoleKind::METADATA: validate(Cursor(file_, file_.delimited())); return true;
            case HoleKind::FRAME: return enter_frame();
            case HoleKind::NAME: file_.delimited(); return true;
            case HoleKind::END: return file_.at() == node_end_;
            default: return enter_attribute(hole);
        }
    }

    bool enter_frame() {
        const std::uint64_t size = file_.varint();
        if (size > file_.left() || size > 0x7fffffff) return false;
        node_end_ = file_.at() + size;
        return true;
    }

    bool enter_attribute(const Hole& hole) {
        const Attribute attribute = read_attribute(Cursor(file_, file_.delimited()));
        if (attribute.attr != hole.attr || filling_of(attribute) != hole.filling) return false;
        fill(to_.rows_, first_ + static_cast<std::size_t>(hole.slot), attribute, hole.filling, strings_);
        return true;
    }

    void note(std::size_t number, const Hole& hole, Span bytes) {
        if (same(bytes, Span{to_.data_.data + hole.offset, hole.size})) return;
        put_varint(difference_, number - last_);
        put_varint(difference_, bytes.size);
        difference_.insert(difference_.end(), bytes.data, bytes.data + bytes.size);
        last_ = number;
    }

    const std::uint8_t* to_base() const { return file_.at() - file_.offset(); }

    TraceClass& to_;
    Cursor file_;
    Strings& strings_;
    std::size_t first_;
    std::size_t last_ = 0;
    const std::uint8_t* node_end_ = nullptr;
    std::vector<std::uint8_t> difference_;
};

bool TraceClass::add(Span data, Strings& strings) { return Matcher(*this, data, strings).run(); }

}  // namespace astrarium::trace
