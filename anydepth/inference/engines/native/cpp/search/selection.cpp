#include "search/selection.h"

#include <algorithm>
#include <cstdint>

namespace anydepth {
namespace {

// A set of words, which gives them back in ascending order.
class WordSet {
  public:
    explicit WordSet(int vocab) : bits_((vocab + 63) / 64, 0) {}

    void add(int word) { bits_[word / 64] |= 1ull << word % 64; }
    std::vector<int> words() const {
        std::vector<int> found;
        for (size_t i = 0; i < bits_.size(); ++i)
            for (uint64_t left = bits_[i]; left; left &= left - 1)
                found.push_back((int)i * 64 + __builtin_ctzll(left));
        return found;
    }

  private:
    std::vector<uint64_t> bits_;
};

}  // namespace

std::vector<int> Selection::choose(const Kernels& kernels, const int* pieces, int length, const float* memory, int dim,
                                   Scratch& scratch) const {
    WordSet chosen(vocab);
    for (const int word : always) chosen.add(word);
    bool is_any_spelled = false;
    for (int s = 0; s < length; ++s) {
        const int piece = pieces[s];
        if (copies[piece] >= 0) chosen.add(copies[piece]);
        if (!starts.empty())
            for (int i = starts[piece]; i < starts[piece + 1]; ++i) chosen.add(words[i]);
        is_any_spelled |= !is_spelled.empty() && is_spelled[piece];
    }
    if (is_any_spelled)
        for (const int word : bytes) chosen.add(word);
    if (is_learned) {
        std::vector<float> pooled(memory, memory + dim), odds(vocab);
        for (int s = 1; s < length; ++s)
            for (int i = 0; i < dim; ++i) pooled[i] = std::max(pooled[i], memory[(int64_t)s * dim + i]);
        learned.apply(kernels, pooled.data(), 1, odds.data(), scratch);
        for (int word = 0; word < vocab; ++word)
            if (odds[word] > least_odds) chosen.add(word);
    }
    return chosen.words();
}

SentenceWords words_of(std::vector<int> tokens, int vocab, int eos, const std::vector<int>& banned) {
    if (tokens.empty()) return {{}, vocab, eos, banned};
    SentenceWords words{std::move(tokens), 0, 0, {}};
    words.count = (int)words.tokens.size();
    const auto place_of = [&](int token) {
        return (int)(std::lower_bound(words.tokens.begin(), words.tokens.end(), token) - words.tokens.begin());
    };
    words.end = place_of(eos);  // EOS is always among them
    for (const int token : banned) {
        const int place = place_of(token);
        if (place < words.count && words.tokens[place] == token) words.banned.push_back(place);
    }
    return words;
}

}  // namespace anydepth
