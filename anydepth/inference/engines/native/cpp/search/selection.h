// Which words a sentence may use, chosen from its source before decoding.
#pragma once

#include <vector>

#include "model/matrix.h"

namespace anydepth {

// The words of a sentence, in ascending order, and where those stand that search treats apart.
struct SentenceWords {
    std::vector<int> tokens;  // none: all words, each at its own place
    int count = 0;
    int end = 0;              // the place of EOS
    std::vector<int> banned;  // the places of tokens that continue nothing

    int token(int place) const { return tokens.empty() ? place : tokens[place]; }
};

// As the selections of anydepth/vocabulary: words that are always there, those that the source pieces
// are written like, and those that a table or a learned product has for the source.
struct Selection {
    int vocab = 0;
    std::vector<int> always;
    std::vector<int> copies;       // for each source piece the word that is written like it, or -1
    std::vector<int> bytes;        // words that a source with a spelled piece may use besides
    std::vector<bool> is_spelled;  // of each source piece; empty: none is
    std::vector<int> starts;       // where the words of each source piece begin in `words`; empty: there is no table
    std::vector<int> words;
    Matrix learned;  // the log-odds of all words from the pooled states of the encoder
    bool is_learned = false;
    float least_odds = 0;

    // The words for `length` source pieces and the encoder's states of them, ascending.
    std::vector<int> choose(const Kernels& kernels, const int* pieces, int length, const float* memory, int dim,
                            Scratch& scratch) const;
};

// Those words with the places of EOS and of what is banned; all words without a selection.
SentenceWords words_of(std::vector<int> tokens, int vocab, int eos, const std::vector<int>& banned);

}  // namespace anydepth
