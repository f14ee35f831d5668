#include "search/admission.h"

#include <algorithm>

namespace anydepth {

void Admission::admit(Sentences& active) {
    const Settings& settings = job_.settings;
    while ((int)active.size() < settings.batch_sentences) {
        if (waiting_.empty()) encode_more();
        if (waiting_.empty()) return;
        int64_t longest = waiting_.back()->length;
        for (const auto& sentence : active) longest = std::max<int64_t>(longest, sentence->length);
        const int64_t tokens = (int64_t)(active.size() + 1) * settings.beam * longest;
        if (!active.empty() && tokens > settings.batch_tokens) return;
        active.push_back(std::move(waiting_.back()));
        waiting_.pop_back();
    }
}

void Admission::encode_more() {
    // No more than a fair share of what is left: the other workers need sentences, too.
    const int64_t left = std::max<int64_t>(0, (int64_t)job_.order.size() - (int64_t)job_.next.load());
    const int64_t share = (left + job_.workers - 1) / job_.workers;
    const int64_t portion = std::min<int64_t>(job_.settings.batch_sentences, share);
    fresh_.clear();
    tokens_.clear();
    starts_.assign(1, 0);
    while ((int64_t)waiting_.size() < portion) {
        const size_t place = job_.next.fetch_add(1);
        if (place >= job_.order.size()) break;
        const int number = job_.order[place];
        auto sentence = make_sentence(number);
        if (!is_repeated(number)) {
            const std::vector<int>& source = job_.sources[number];
            last_source_ = std::make_shared<Source>();
            last_source_->keys.resize(job_.model.shape.blocks);
            fresh_.push_back(last_source_.get());
            tokens_.insert(tokens_.end(), source.begin(), source.end());
            starts_.push_back((int)tokens_.size());
        }
        last_number_ = number;
        sentence->source = last_source_;
        waiting_.push_back(std::move(sentence));
    }
    if (waiting_.empty()) return;
    encode();
    for (auto& sentence : waiting_) decisions_.plan(*sentence);
    std::reverse(waiting_.begin(), waiting_.end());
    meter_.spent(encoding);
}

std::unique_ptr<Sentence> Admission::make_sentence(int number) const {
    auto sentence = std::make_unique<Sentence>();
    sentence->number = number;
    sentence->length = (int)job_.sources[number].size();
    sentence->padded = (sentence->length + 15) / 16 * 16;
    sentence->limit = job_.limits[number];
    sentence->rows.push_back({job_.settings.bos, -1, 0.0f, {}});
    return sentence;
}

// Whether the sentence is the one before it once more, to be decoded to other exits.
bool Admission::is_repeated(int number) const {
    return last_number_ >= 0 && job_.sources[last_number_] == job_.sources[number];
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
        const int length = starts_[s + 1] - starts_[s];
        fresh_[s]->memory.assign(own, own + (int64_t)length * dim);
        fresh_[s]->words = choose_words(tokens_.data() + starts_[s], length, own);
    }
}

SentenceWords Admission::choose_words(const int* pieces, int length, const float* memory) {
    const Model& model = job_.model;
    std::vector<int> tokens;
    if (job_.selection)
        tokens = job_.selection->choose(model.kernels, pieces, length, memory, model.shape.encoder_dim, scratch_);
    return words_of(std::move(tokens), model.shape.target_vocab, job_.settings.eos, job_.settings.banned);
}

}  // namespace anydepth
