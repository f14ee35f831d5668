#include "search/decoder.h"

#include <cstring>

namespace anydepth {

void Decoder::embed(const Step& step, float* hidden) const {
    const int dim = model_.shape.decoder_dim;
    const float rate = model_.shape.embedding_rate(dim);
    for (const StepRow& each : step.running) {
        const float* word = model_.target_embedding + (int64_t)each.hypothesis().token * dim;
        const float* place = model_.decoder_positions + (int64_t)each.sentence->time * dim;
        for (int i = 0; i < dim; ++i) hidden[(size_t)each.row * dim + i] = word[i] * rate + place[i];
    }
}

void Decoder::run_block(int n, const Step& step, float* hidden) {
    attend_to_target(n, step, hidden);
    meter_.spent(transforming);
    attend_to_source(n, step, hidden);
    feed_forward(n, (int)step.running.size(), hidden);
    if (n == 1 && model_.shape.attends_first) keep_attended(step, hidden);
    meter_.spent(transforming);
}

// What later tokens attend to is known for every row, all of which pass block 1.
void Decoder::keep_attended(const Step& step, const float* hidden) {
    const int dim = model_.shape.decoder_dim;
    for (size_t r = 0; r < step.running.size(); ++r)
        std::memcpy(nodes_.attended(step.nodes[step.running[r].row]), hidden + r * dim, sizeof(float) * dim);
}

// Attention to the tokens so far, those that left below the block among them.
void Decoder::attend_to_target(int n, const Step& step, float* hidden) {
    const DecoderWeights& weights = model_.decoder[n - 1];
    const int rows = (int)step.running.size(), dim = model_.shape.decoder_dim;
    float* gathered = gathered_.at_least((size_t)rows * dim);
    float* delta = delta_.at_least((size_t)rows * dim);

    const float* queries = make_pairs_and_queries(n, step, hidden);
    const int stride = model_.shape.attends_apart(n) ? dim : 3 * dim;
    meter_.spent(transforming);
    if (model_.shape.keys_of(n) == n) copies_.make_at(n, step);
    meter_.spent(copying);
    for (int r = 0; r < rows; ++r)
        attend_to_path(n, step.running[r].hypothesis().path, queries + (size_t)r * stride, gathered + (size_t)r * dim);
    meter_.spent(attending);
    weights.self_output.apply(ops_, gathered, rows, delta, scratch_);
    ops_.add_norm(hidden, delta, weights.self_norm.gain, weights.self_norm.bias, hidden, rows, dim);
}

// The queries of the running rows, and where they are made of the same states their keys and values;
// those of other states are left to the copies.
const float* Decoder::make_pairs_and_queries(int n, const Step& step, const float* hidden) {
    const DecoderWeights& weights = model_.decoder[n - 1];
    const int rows = (int)step.running.size(), dim = model_.shape.decoder_dim;
    float* kvq = kvq_.at_least((size_t)rows * 3 * dim);
    if (model_.shape.attends_apart(n)) {
        weights.query.apply(ops_, hidden, rows, kvq, scratch_);
        return kvq;
    }
    weights.kvq.apply(ops_, hidden, rows, kvq, scratch_);
    for (int r = 0; r < rows; ++r) {
        const int node = step.nodes[step.running[r].row];
        std::memcpy(nodes_.pair(node, n), kvq + (size_t)r * 3 * dim, sizeof(float) * 2 * dim);
        nodes_.note_pair(node, n);
    }
    return kvq + 2 * dim;
}

void Decoder::attend_to_path(int n, const std::vector<int>& path, const float* query, float* out) {
    const int dim = model_.shape.decoder_dim, count = (int)path.size(), key_block = model_.shape.keys_of(n);
    keys_.resize(count);
    values_.resize(count);
    for (int s = 0; s < count; ++s) {
        keys_[s] = nodes_.pair(path[s], key_block);
        values_[s] = keys_[s] + dim;
    }
    scratch_.flops += 4LL * count * dim;
    ops_.attend_scattered(query, keys_.data(), values_.data(), count, model_.shape.decoder_heads, dim,
                          scores_.at_least(count + 16), out);
}

void Decoder::attend_to_source(int n, const Step& step, float* hidden) {
    const DecoderWeights& weights = model_.decoder[n - 1];
    const std::vector<StepRow>& running = step.running;
    const int rows = (int)running.size(), dim = model_.shape.decoder_dim, key_block = model_.shape.keys_of(n);
    float* queries = kvq_.at_least((size_t)rows * dim);
    float* gathered = gathered_.at_least((size_t)rows * dim);
    float* delta = delta_.at_least((size_t)rows * dim);

    if (key_block == n) projection_.make_at(n, step);
    meter_.spent(projecting_source);
    weights.source_query.apply(ops_, hidden, rows, queries, scratch_);
    meter_.spent(transforming);
    for (int r = 0, next; r < rows; r = next) {  // the rows of a sentence look at its source together
        for (next = r + 1; next < rows && running[next].sentence == running[r].sentence; ++next) {
        }
        const Sentence& sentence = *running[r].sentence;
        const SourceKeys& source = sentence.source->keys[key_block - 1];
        scratch_.flops += 4LL * (next - r) * sentence.length * dim;
        ops_.attend_dense(queries + (size_t)r * dim, next - r, dim, source.keys.get(), source.values.get(),
                          sentence.length, sentence.padded, model_.shape.decoder_heads, dim,
                          scores_.at_least(4 * sentence.padded), gathered + (size_t)r * dim);
    }
    meter_.spent(attending);
    weights.source_output.apply(ops_, gathered, rows, delta, scratch_);
    ops_.add_norm(hidden, delta, weights.source_norm.gain, weights.source_norm.bias, hidden, rows, dim);
}

void Decoder::feed_forward(int n, int rows, float* hidden) {
    const DecoderWeights& weights = model_.decoder[n - 1];
    const int dim = model_.shape.decoder_dim;
    float* inner = inner_.at_least((size_t)rows * model_.shape.decoder_ffn);
    float* delta = delta_.at_least((size_t)rows * dim);
    weights.inner.apply(ops_, hidden, rows, inner, scratch_, model_.shape.activation);
    weights.outer.apply(ops_, inner, rows, delta, scratch_);
    ops_.add_norm(hidden, delta, weights.feed_forward_norm.gain, weights.feed_forward_norm.bias, hidden, rows, dim);
}

}  // namespace anydepth
