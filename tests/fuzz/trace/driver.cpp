// A small coverage-guided driver for compilers without libFuzzer: g++ -fsanitize-coverage=trace-pc calls the hook below
// at every edge. usage: fuzz SECONDS SEED CORPUS_FOLDER NEW_FOLDER
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr std::size_t MAP = 1 << 16, LONGEST = 4096;

std::uint8_t seen_now[MAP], seen_ever[MAP];

}  // namespace

extern "C" void __sanitizer_cov_trace_pc() {
    const auto place = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
    std::uint8_t &count = seen_now[(place ^ place >> 16) % MAP];
    if (count < 255) count++;
}

namespace {

std::uint8_t bucket(std::uint8_t count) {  // 1, 2, 3-4, 5-8, ... as bits, so that loops count a little
    std::uint8_t bit = 1;
    for (int limit = 1; limit < count && bit < 128; limit *= 2) bit = static_cast<std::uint8_t>(bit << 1);
    return bit;
}

bool run(const Bytes &input) {
    std::fill(std::begin(seen_now), std::end(seen_now), std::uint8_t{0});
    LLVMFuzzerTestOneInput(input.data(), input.size());
    bool fresh = false;
    for (std::size_t i = 0; i < MAP; i++) {
        if (seen_now[i] == 0 || (seen_ever[i] & bucket(seen_now[i])) != 0) continue;
        seen_ever[i] |= bucket(seen_now[i]);
        fresh = true;
    }
    return fresh;
}

class Mutator {
  public:
    explicit Mutator(std::uint64_t seed) : random_(seed) {}

    std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }

    Bytes mutate(Bytes input, const Bytes &other) {
        for (std::size_t times = 1 + below(4); times > 0; times--) change(input, other);
        if (input.size() > LONGEST) input.resize(LONGEST);
        return input;
    }

  private:
    void change(Bytes &input, const Bytes &other) {
        static constexpr std::uint8_t ODD[] = {0, 1, 2, 0x7f, 0x80, 0xff, 0x08, 0x0a, 0x0b, 0x0c, 0x12, 0x18, 0x22, 0x2a, 0x52, 0xe2};
        if (input.empty()) input.push_back(0);
        const std::size_t at = below(input.size());
        const auto place = input.begin() + static_cast<std::ptrdiff_t>(at);
        switch (below(6)) {
            case 0: *place = static_cast<std::uint8_t>(*place ^ 1u << below(8)); break;
            case 1: *place = ODD[below(std::size(ODD))]; break;
            case 2: *place = static_cast<std::uint8_t>(*place + below(9) - 4); break;
            case 3: input.erase(place, place + static_cast<std::ptrdiff_t>(1 + below(input.size() - at))); break;
            case 4: input.insert(place, ODD[below(std::size(ODD))]); break;
            default: splice(input, other, at);
        }
    }

    void splice(Bytes &input, const Bytes &other, std::size_t at) {
        if (other.empty()) return;
        const std::size_t from = below(other.size()), count = 1 + below(other.size() - from);
        const Bytes piece(other.begin() + static_cast<std::ptrdiff_t>(from), other.begin() + static_cast<std::ptrdiff_t>(from + count));
        input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), piece.begin(), piece.end());
    }

    std::mt19937_64 random_;
};

std::vector<Bytes> load(const std::string &folder) {
    std::vector<Bytes> found;
    for (const auto &entry : std::filesystem::directory_iterator(folder)) {
        std::ifstream file(entry.path(), std::ios::binary);
        found.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    return found;
}

// Every input is on disk before it runs: after a crash `current` holds the culprit.
void save(const std::string &path, const Bytes &input) {
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char *>(input.data()), static_cast<std::streamsize>(input.size()));
}

}  // namespace

int main(int count, char **words) {
    if (count != 5) return 2;
    const std::string fresh = words[4];
    std::vector<Bytes> pool = load(words[3]);
    for (const Bytes &input : pool) run(input);
    if (pool.empty()) pool.push_back({0, 1, 0, 0});
    const std::size_t known = pool.size();
    Mutator mutator(std::strtoull(words[2], nullptr, 10));
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(words[1]));
    std::size_t runs = 0;
    for (; std::chrono::steady_clock::now() < end; runs++) {
        const Bytes input = mutator.mutate(pool[mutator.below(pool.size())], pool[mutator.below(pool.size())]);
        save(fresh + "/current", input);
        if (!run(input)) continue;
        save(fresh + "/new" + std::to_string(pool.size()), input);
        pool.push_back(input);
    }
    std::filesystem::remove(fresh + "/current");
    std::printf("%zu runs, %zu inputs known, %zu new\n", runs, known, pool.size() - known);
    return 0;
}
