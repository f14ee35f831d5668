#include "search/selection.h"

#include <algorithm>

namespace anydepth {

std::vector<int> Selection::choose(const Kernels& kernels, const int* pieces, int length, const float* memory, int dim,
                                   Scratch& scratch) const {
    std::vector<bool> is_chosen(vocab, false);
    for (const int word : always) is_chosen[word] = true;
    bool is_any_spelled = false;
    for (int s = 0; s < length; ++s) {
        const int piece = pieces[s];
        if (copies[piece] >= 0) is_chosen[copies[piece]] = true;
        if (!starts.empty())
            for (int i = starts[piece]; i < starts[piece + 1]; ++i) is_chosen[words[i]] = true;
        is_any_spelled |= !is_spelled.empty() && is_spelled[piece];
    }
    if (is_any_spelled)
        for (const int word : bytes) is_chosen[word] = true;
    if (is_learned) {
        std::vector<float> pooled(memory, memory + dim), odds(vocab);
        for (int s = 1; s < length; ++s)
            for (int i = 0; i < dim; ++i) pooled[i] = std::max(pooled[i], memory[(int64_t)s * dim + i]);
        learned.apply(kernels, pooled.data(), 1, odds.data(), scratch);
        for (int word = 0; word < vocab; ++word)
            if (odds[word] > least_odds) is_chosen[word] = true;
    }
    std::vector<int> chosen;
    for (int word = 0; word < vocab; ++word)
        if (is_chosen[word]) chosen.push_back(word);
    return chosen;
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
