#include "model/model.h"

namespace anydepth {
namespace {

// Makes the parts of a model from the tensors of its checkpoint.
class Reader {
  public:
    Reader(const Kernels& kernels, const Shape& shape, const Lookup& tensor, bool is_int8)
        : kernels_(kernels), shape_(shape), tensor_(tensor), is_int8_(is_int8) {}

    EncoderWeights encoder_block(int n) const {
        const std::string at = "encoder." + std::to_string(n) + ".", attention = at + "attention.";
        const int dim = shape_.encoder_dim, ffn = shape_.encoder_ffn;
        return {matrix({attention + "key", attention + "value", attention + "query"}, dim, dim),
                matrix({attention + "output"}, dim, dim),
                matrix({at + "feed_forward.inner"}, ffn, dim),
                matrix({at + "feed_forward.outer"}, dim, ffn),
                norm(at + "attention_norm"),
                norm(at + "feed_forward_norm")};
    }
    DecoderWeights decoder_block(int n) const {  // n from 0
        const std::string at = "decoder." + std::to_string(n) + ".";
        const std::string own = at + "self_attention.", source = at + "source_attention.";
        const int wide = shape_.encoder_dim, dim = shape_.decoder_dim, ffn = shape_.decoder_ffn;
        const bool is_apart = shape_.attends_apart(n + 1), has_keys = n < shape_.key_blocks;
        return {!has_keys  ? Matrix()
                : is_apart ? matrix({own + "key", own + "value"}, dim, dim)
                           : matrix({own + "key", own + "value", own + "query"}, dim, dim),
                is_apart ? matrix({own + "query"}, dim, dim) : Matrix(),
                matrix({own + "output"}, dim, dim),
                matrix({source + "query"}, dim, dim),
                has_keys ? matrix({source + "key", source + "value"}, dim, wide) : Matrix(),
                matrix({source + "output"}, dim, dim),
                matrix({at + "feed_forward.inner"}, ffn, dim),
                matrix({at + "feed_forward.outer"}, dim, ffn),
                norm(at + "self_attention_norm"),
                norm(at + "source_attention_norm"),
                norm(at + "feed_forward_norm")};
    }
    Classifier classifier(const std::string& name) const {
        const float* bias = shape_.has_output_bias ? tensor_("output_bias") : nullptr;
        return Classifier(kernels_, tensor_(name), bias, shape_.target_vocab, shape_.decoder_dim, is_int8_);
    }
    // Cheap beside the classifier after it, so that its weights stay as they are.
    AdapterWeights adapter(int n) const {
        const std::string at = "exit_adapters." + std::to_string(n) + ".";
        return {exact(at + "down", shape_.adapter, shape_.decoder_dim),
                exact(at + "up", shape_.decoder_dim, shape_.adapter), norm(at + "norm")};
    }
    // For a decision, which is cheap and sharp: its weights stay as they are.
    Matrix exact(const std::string& name, int n, int k) const {
        return Matrix(kernels_, {tensor_(name + ".weight")}, {tensor_(name + ".bias")}, n, k, false);
    }

  private:
    Matrix matrix(const std::vector<std::string>& names, int n, int k) const {
        std::vector<const float*> weights, biases;
        for (const auto& name : names) {
            weights.push_back(tensor_(name + ".weight"));
            biases.push_back(tensor_(name + ".bias"));
        }
        return Matrix(kernels_, weights, biases, n, k, is_int8_);
    }
    Norm norm(const std::string& name) const { return {tensor_(name + ".weight"), tensor_(name + ".bias")}; }

    const Kernels& kernels_;
    const Shape& shape_;
    const Lookup& tensor_;
    const bool is_int8_;
};

}  // namespace

Model::Model(const Kernels& kernels, const Shape& shape, bool is_int8, Halting halting, int halting_units,
             const std::vector<std::string>& classifier_names, const Lookup& tensor)
    : kernels(kernels), shape(shape), has_units(halting_units > 0) {
    const Reader reader(kernels, shape, tensor, is_int8);
    source_embedding = tensor("source_embedding.weight");
    target_embedding = tensor("target_embedding.weight");
    encoder_positions = tensor("encoder_positions");
    decoder_positions = tensor("decoder_positions");
    for (int n = 0; n < shape.encoder_blocks; ++n) encoder.push_back(reader.encoder_block(n));
    for (int n = 0; n < shape.blocks; ++n) decoder.push_back(reader.decoder_block(n));
    for (const auto& name : classifier_names) classifiers.push_back(reader.classifier(name));
    for (int n = 0; shape.adapter && n < shape.blocks - 1; ++n) adapters.push_back(reader.adapter(n));
    if (halting == Halting::sequence)
        scores = reader.exact("halting.sentence_scores", shape.blocks, shape.encoder_dim);
    if (halting == Halting::multinomial)
        scores = reader.exact("halting.token_scores", shape.blocks, shape.decoder_dim);
    if (halting == Halting::geometric) {
        if (has_units) units = reader.exact("halting.features", halting_units, shape.decoder_dim);
        stop_weight = tensor("halting.stop_score.weight");
        stop_bias = *tensor("halting.stop_score.bias");
    }
}

}  // namespace anydepth
