#include "search/admission.h"

#include <algorithm>

namespace anydepth {

void Admission::admit(Sentences& active) {
    while ((int)active.size() < job_.batching.sentences) {
        if (waiting_.empty()) encode_more((int)active.size());
        if (waiting_.empty() || !has_room(active, *waiting_.back())) return;
        active.push_back(std::move(waiting_.back()));
        waiting_.pop_back();
    }
}

// Whether one sentence more is within the tokens of a batch; one alone always is.
bool Admission::has_room(const Sentences& active, const Sentence& more) const {
    int64_t longest = more.length, beams = more.settings().beam;
    for (const auto& sentence : active) {
        longest = std::max<int64_t>(longest, sentence->length);
        beams += sentence->settings().beam;
    }
    return active.empty() || beams * longest <= job_.batching.tokens;
}

void Admission::encode_more(int active) {
    const int most = job_.batching.sentences;
    std::vector<RequestPointer> taken = job_.queue.take(most - active, most, active == 0);
    if (taken.empty()) return;
    meter_.start();  // waiting is no work
    fresh_.clear();
    tokens_.clear();
    starts_.assign(1, 0);
    for (RequestPointer& request : taken) prepare(std::move(request));
    encode();
    for (auto& sentence : waiting_) decisions_.plan(*sentence);
    std::reverse(waiting_.begin(), waiting_.end());
    meter_.spent(encoding);
}

// Makes a sentence that waits to be encoded, or needs only share the source of the one before it.
void Admission::prepare(RequestPointer request) {
    auto sentence = std::make_unique<Sentence>();
    sentence->length = (int)request->source.size();
    sentence->padded = (sentence->length + 15) / 16 * 16;
    sentence->rows.push_back({request->terms->settings.bos, -1, 0.0f, {}});
    if (!is_repeated(*request)) {
        last_source_ = std::make_shared<Source>();
        last_source_->keys.resize(job_.model.shape.key_blocks);
        fresh_.push_back(sentence.get());
        tokens_.insert(tokens_.end(), request->source.begin(), request->source.end());
        starts_.push_back((int)tokens_.size());
    }
    sentence->source = last_source_;
    sentence->request = last_request_ = std::move(request);
    waiting_.push_back(std::move(sentence));
}

// Whether the sentence is the one before it once more, to be decoded to other exits.
bool Admission::is_repeated(const Request& request) const {
    if (!last_request_ || last_request_->source != request.source) return false;
    const Terms &last = *last_request_->terms, &own = *request.terms;
    return &last == &own || (last.selection == own.selection && last.settings.eos == own.settings.eos &&
                             last.settings.banned == own.settings.banned);
}

// Encodes the fresh sources together.
void Admission::encode() {
    const int dim = job_.model.shape.encoder_dim;
    float* memory = memory_.at_least(tokens_.size() * dim);
    const int64_t before = scratch_.flops;
    if (!fresh_.empty()) job_.model.encode(tokens_.data(), starts_, memory, scratch_);
    meter_.counts.encoder_flops += scratch_.flops - before;
    scratch_.flops = before;
    for (size_t s = 0; s < fresh_.size(); ++s) {
        const float* own = memory + (int64_t)starts_[s] * dim;
        Source& source = *fresh_[s]->source;
        source.memory.assign(own, own + (int64_t)fresh_[s]->length * dim);
        source.words = choose_words(*fresh_[s]->request, own);
    }
}

SentenceWords Admission::choose_words(const Request& request, const float* memory) {
    const Model& model = job_.model;
    const Terms& terms = *request.terms;
    std::vector<int> tokens;
    if (terms.selection)
        tokens = terms.selection->choose(model.kernels, request.source.data(), (int)request.source.size(), memory,
                                         model.shape.encoder_dim, scratch_);
    return words_of(std::move(tokens), model.shape.target_vocab, terms.settings.eos, terms.settings.banned);
}

}  // namespace anydepth
