#include "search/source_projection.h"

#include <algorithm>

namespace anydepth {

void SourceProjection::make_at(int n, const Step& step) {
    const int wide = model_.shape.encoder_dim, dim = model_.shape.decoder_dim;
    missing_.clear();
    int rows = 0;
    for (const StepRow& each : step.running) {
        SourceKeys& source = each.sentence->source->keys[n - 1];
        if (source.is_ready) continue;
        source.is_ready = true;
        missing_.push_back(each.sentence);
        rows += each.sentence->length;
    }
    if (missing_.empty()) return;
    float* memory = memory_.at_least((size_t)rows * wide);
    float* pairs = pairs_.at_least((size_t)rows * 2 * dim);
    float* to = memory;
    for (const Sentence* sentence : missing_)
        to = std::copy(sentence->source->memory.begin(), sentence->source->memory.end(), to);
    model_.decoder[n - 1].source_kv.apply(model_.kernels, memory, rows, pairs, scratch_);
    for (const Sentence* sentence : missing_) {
        SourceKeys& source = sentence->source->keys[n - 1];
        lay_out_keys(model_.kernels, pairs, 2 * dim, sentence->length, sentence->padded, dim,
                     source.keys.at_least((size_t)sentence->padded * dim),
                     source.values.at_least((size_t)sentence->length * dim));
        pairs += (size_t)sentence->length * 2 * dim;
    }
}

}  // namespace anydepth
