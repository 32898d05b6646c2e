#include "astra/astra_tree.hpp"

#include <string>

namespace astrarium {

namespace {

// In-order perfect tree over n - 1 nodes plus a root, which is the first place or the last one.
TreePlace place_of(int n, int index, bool root_first) {
    const int shift = root_first ? 0 : 1;  // number in the tree = place + shift, 1..n-1; the root is 0 (first) or n (last)
    const int number = index + shift, root = root_first ? 0 : n;
    if (number == root) return {-1, n / 2 - shift, -1};
    const int low = number & -number;
    const int up = number & (low << 1) ? number - low : number + low;
    const int parent = (low == n / 2 ? root : up) - shift;
    if (low == 1) return {parent, -1, -1};
    return {parent, number - low / 2 - shift, number + low / 2 - shift};
}

bool is_root(const Stream& s) { return s.tree.parent < 0; }
bool is_leaf(const Stream& s) { return s.tree.left < 0; }

}  // namespace

void TreeMachine::enter(Stream& s) const {
    const int n = s.n;
    if (n < 2 || (n & (n - 1)) != 0)
        throw Unsupported("double_binary_tree over " + std::to_string(n) +
                          " NPUs: ASTRA-sim's needs a power of two (it crashes otherwise)");
    s.message = s.phase->size;
    s.reduce_delay = door_.reduction(s, s.message);
    s.tree = place_of(n, s.index, s.root_first);
    s.state = TreeState::begins;
    s.reduced = false;
}

void TreeMachine::start(Stream& s) {
    if (is_leaf(s)) return cross(s, TreeState::sends_up, true, false, false);
    s.state = is_root(s) ? TreeState::waits_for_one : TreeState::waits_for_two;
    receive(s, s.tree.left, of_left);
    if (!is_root(s)) receive(s, s.tree.right, of_right);
}

bool TreeMachine::received(Stream& s) {
    if (is_root(s)) return go_on_root(s);
    if (is_leaf(s)) return go_on_leaf(s);
    if (s.state == TreeState::waits_for_two) cross(s, TreeState::waits_for_one, false, true, false);
    else if (s.state == TreeState::waits_for_one) cross(s, TreeState::sends_up, false, true, true);
    else if (s.state == TreeState::waits_for_parent) cross(s, TreeState::sends_down, false, true, true);
    return false;
}

bool TreeMachine::crossed(Stream& s) {
    if (is_root(s)) return go_on_root(s);
    if (is_leaf(s)) return go_on_leaf(s);
    if (!s.reduced) {
        s.reduced = true;
    } else if (s.state == TreeState::sends_up) {
        send_up(s);
    } else if (s.state == TreeState::sends_down) {
        send(s, s.tree.left, of_parent);
        send(s, s.tree.right, of_parent);
        return true;
    }
    return false;
}

bool TreeMachine::go_on_leaf(Stream& s) {
    if (s.state == TreeState::ends) return true;
    if (s.state == TreeState::sends_up) send_up(s);
    else cross(s, TreeState::ends, false, false, false);
    return false;
}

bool TreeMachine::go_on_root(Stream& s) {
    if (s.state == TreeState::waits_for_one) {
        cross(s, TreeState::sends_down, false, true, true);
        return false;
    }
    send(s, s.tree.left, of_parent);
    return true;
}

void TreeMachine::cross(Stream& s, TreeState next, bool to_agent, bool reduces, bool sends_back) {
    s.state = next;
    door_.cross(s, to_agent, reduces, sends_back, s.message);
}

void TreeMachine::send(Stream& s, std::int32_t place, std::uint32_t source) {
    mail_.send(s, static_cast<std::uint32_t>(place), source, s.message);
}

void TreeMachine::receive(Stream& s, std::int32_t place, std::uint32_t source) {
    mail_.receive(s, static_cast<std::uint32_t>(place), source, s.message);
}

void TreeMachine::send_up(Stream& s) {
    s.state = TreeState::waits_for_parent;
    const bool left = place_of(s.n, s.tree.parent, s.root_first).left == s.index;
    send(s, s.tree.parent, left ? of_left : of_right);
    receive(s, s.tree.parent, of_parent);
}

}  // namespace astrarium
