// The tree of tokens that the hypotheses of a worker share, with their states, keys and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/buffer.h"

namespace anydepth {

// One token of one or several hypotheses: its state where it left, that which later tokens attend to,
// and for each block its key and value once they have been made. Hypotheses that share a beginning
// share its nodes, so that nothing is copied when the beam is reordered.
struct Node {
    int parent;
    int users;       // rows that end here, and children
    uint64_t ready;  // bit n - 1: block n has the key and the value
};

class Nodes {
  public:
    // The attended state is that where the token left, or has a place of its own.
    Nodes(int blocks, int dim, bool is_attended_apart)
        : blocks_(blocks), dim_(dim), is_attended_apart_(is_attended_apart) {}

    // A node for the next token of a row that ended at `parent`, or -1 for the row's first token.
    int add(int parent) {
        if (free_.empty()) grow();
        const int id = free_.back();
        free_.pop_back();
        nodes_[id] = {parent, 1, 0};  // the row's use of the parent becomes that of the child
        return id;
    }
    void keep(int id) { ++nodes_[id].users; }
    void release(int id) {
        while (id >= 0 && --nodes_[id].users == 0) {
            free_.push_back(id);
            id = nodes_[id].parent;
        }
    }
    bool has_pair(int id, int n) const { return nodes_[id].ready >> (n - 1) & 1; }
    void note_pair(int id, int n) { nodes_[id].ready |= 1ull << (n - 1); }
    size_t size() const { return nodes_.size(); }
    float* state(int id) { return chunks_[id / AT_ONCE].get() + (size_t)(id % AT_ONCE) * stride(); }
    // The key of block n, followed by its value.
    float* pair(int id, int n) { return state(id) + dim_ + (size_t)(n - 1) * 2 * dim_; }
    // What blocks above the first make keys and values of.
    float* attended(int id) { return is_attended_apart_ ? pair(id, blocks_ + 1) : state(id); }

  private:
    static constexpr int AT_ONCE = 64;  // allocated together

    void grow() {
        const int first = (int)nodes_.size();
        nodes_.resize(first + AT_ONCE);
        chunks_.emplace_back();
        chunks_.back().at_least((size_t)AT_ONCE * stride());
        for (int i = AT_ONCE; i-- > 0;) free_.push_back(first + i);
    }
    size_t stride() const { return (size_t)dim_ * (1 + 2 * blocks_ + is_attended_apart_); }

    int blocks_, dim_;
    bool is_attended_apart_;
    std::vector<Node> nodes_;
    std::vector<Buffer<float>> chunks_;
    std::vector<int> free_;
};

}  // namespace anydepth
