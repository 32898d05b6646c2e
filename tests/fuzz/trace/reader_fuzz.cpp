// Coverage-guided fuzzing of the trace reader: no input may crash it, and what it takes it must give back.
//
// LLVMFuzzerTestOneInput is libFuzzer's entry point; driver.cpp stands in for libFuzzer where only GCC is at hand.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "order.hpp"
#include "trace_class.hpp"

namespace at = astrarium::trace;

namespace {

void demand(bool holds, const char *what) {
    if (holds) return;
    std::fprintf(stderr, "broken: %s\n", what);
    std::abort();
}

std::optional<at::TraceClass> parse(at::Span data, at::Strings &strings) {
    try {
        return at::TraceClass(data, strings);
    } catch (const at::ParseError &error) {
        demand(error.offset <= data.size, "an error points past the end of the file");
        return std::nullopt;
    }
}

bool gives_back(const at::TraceClass &held, std::size_t row, at::Span data) {
    const std::vector<std::uint8_t> bytes = held.rebuild(row);
    return at::same({bytes.data(), bytes.size()}, data);
}

void check_columns(const at::Columns &c, std::size_t size) {
    for (std::size_t i = 0; i < c.id.size(); i++) {
        demand(c.offset[i] + c.size[i] <= size && c.name_offset[i] + c.name_size[i] <= size, "a span leaves the file");
        demand(c.data_ptr[i] <= c.data_ptr[i + 1] && c.ctrl_ptr[i] <= c.ctrl_ptr[i + 1], "ptr does not ascend");
        demand((c.present[i] & c.wrong[i]) == 0, "an attribute is both readable and wrong");
    }
    demand(c.data_ptr.back() == static_cast<std::int64_t>(c.data_dep.size()), "data_ptr does not end at data_dep");
    std::vector<std::int32_t> parent;
    for (const std::uint64_t id : c.data_dep) parent.push_back(id < c.id.size() ? static_cast<std::int32_t>(id) : -1);
    const auto order = at::topological_order(c.id.data(), c.id.size(), c.data_ptr.data(), parent.data(), parent.size());
    demand(order.size() <= c.id.size(), "more nodes in order than there are");
}

}  // namespace

// The first two bytes say where the first file ends and the second begins.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    if (size < 2) return 0;
    const std::size_t cut = (static_cast<std::size_t>(data[0]) << 8 | data[1]) % (size - 1);
    const at::Span first{data + 2, cut}, second{data + 2 + cut, size - 2 - cut};
    at::Strings strings;
    std::optional<at::TraceClass> held = parse(first, strings);
    if (!held) return 0;
    check_columns(held->columns(), first.size);
    demand(gives_back(*held, 0, first), "the first rank does not come back");
    demand(held->add(first, strings) && gives_back(*held, 1, first), "a file does not fit its own class");
    const bool fits = held->add(second, strings);
    const std::optional<at::TraceClass> other = parse(second, strings);
    demand(!fits || (other && other->hash() == held->hash()), "a rank was added that is not of the class");
    demand(!fits || gives_back(*held, 2, second), "the second rank does not come back");
    demand(held->rows().tag.size() == held->ranks() * held->columns().comm_node.size(), "rows do not fit the ranks");
    if (fits) {
        const std::size_t width = held->columns().comm_node.size();
        for (std::size_t i = 0; i < width; i++)
            demand(held->rows().destination[2 * width + i] == other->rows().destination[i] &&
                       held->rows().group[2 * width + i] == other->rows().group[i],
                   "a row differs from what the file says");
    }
    return 0;
}
