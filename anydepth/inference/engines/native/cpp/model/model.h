// The weights of a model in the layout of the kernels, and the encoder.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "model/classifier.h"
#include "model/matrix.h"

namespace anydepth {

struct Norm {
    const float *gain, *bias;
};

struct EncoderWeights {
    Matrix kvq, output, inner, outer;
    Norm attention_norm, feed_forward_norm;
};

struct DecoderWeights {
    // Keys and values of what the block attends to, and queries: stacked where all three are made of
    // the same states, else the queries apart; no keys and values above the last block that makes any.
    Matrix kvq, query;
    Matrix self_output, source_query, source_kv, source_output, inner, outer;
    Norm self_norm, source_norm, feed_forward_norm;
};

// Between a state and the classifier of an exit below the last.
struct AdapterWeights {
    Matrix down, up;
    Norm norm;
};

struct Shape {
    int encoder_heads, decoder_heads;
    int encoder_dim, encoder_ffn, decoder_dim, decoder_ffn, encoder_blocks, blocks, target_vocab;
    Activation activation;  // of every feed-forward network
    bool has_scaled_embeddings, has_output_bias;
    int adapter;  // the width of the exits' adapters; 0 where there are none
    bool attends_first;  // all blocks above the first attend to the states after block 1
    int key_blocks;      // the lowest blocks, which make keys and values; a higher one has those of the last

    // The block whose keys and values block n has.
    int keys_of(int n) const { return n < key_blocks ? n : key_blocks; }
    // Whether block n attends to other states than those that enter it.
    bool attends_apart(int n) const { return attends_first && n > 1; }

    // What an embedding of this width is multiplied by.
    float embedding_rate(int dim) const { return has_scaled_embeddings ? std::sqrt((float)dim) : 1.0f; }
};

enum class Halting { none, sequence, multinomial, geometric };

// Gives the numbers of a tensor by its name in the checkpoint; they stay where they are as long as
// the model lives.
using Lookup = std::function<const float*(const std::string&)>;

struct Model {
    const Kernels& kernels;
    Shape shape;
    const float *source_embedding, *target_embedding, *encoder_positions, *decoder_positions;
    std::vector<EncoderWeights> encoder;
    std::vector<DecoderWeights> decoder;
    std::vector<Classifier> classifiers;  // one, or one for each block
    std::vector<AdapterWeights> adapters;  // one for each block but the last, or none
    Matrix units;                         // of the geometric module, if it has any
    bool has_units;
    Matrix scores;                       // of the sequence and the multinomial module
    const float* stop_weight = nullptr;  // w_h and b_h of the geometric module
    float stop_bias = 0;

    Model(const Kernels& kernels, const Shape& shape, bool is_int8, Halting halting, int halting_units,
          const std::vector<std::string>& classifier_names, const Lookup& tensor);

    // The encoder's output for sentences that lie one after the other in `tokens`, each from one
    // number of `starts` to the next; all rows, no padding.
    void encode(const int* tokens, const std::vector<int>& starts, float* memory, Scratch& scratch) const;
    const Classifier& classifier(int n) const { return classifiers[classifiers.size() == 1 ? 0 : n - 1]; }
};

// Keys (position, 2 dim: key then value) as attend_dense wants them: keys (head, width, padded),
// values (position, dim).
void lay_out_keys(const Kernels& kernels, const float* pairs, int stride, int count, int padded, int dim,
                  float* keys, float* values);

}  // namespace anydepth
