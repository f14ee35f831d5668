// The decoder: embeddings and blocks for the rows that are still running.
#pragma once

#include <vector>

#include "model/model.h"
#include "search/copies.h"
#include "search/counts.h"
#include "search/nodes.h"
#include "search/source_projection.h"
#include "search/step.h"

namespace anydepth {

class Decoder {
  public:
    Decoder(const Model& model, Nodes& nodes, Copies& copies, Scratch& scratch, Meter& meter)
        : model_(model), ops_(model.kernels), nodes_(nodes), copies_(copies), projection_(model, scratch),
          scratch_(scratch), meter_(meter) {}

    // The last token of every row at its place in the sentence; hidden is (row, dim).
    void embed(const Step& step, float* hidden) const;

    // Block n for the running rows, in place.
    void run_block(int n, const Step& step, float* hidden);

  private:
    const float* make_pairs_and_queries(int n, const Step& step, const float* hidden);
    void keep_attended(const Step& step, const float* hidden);
    void attend_to_target(int n, const Step& step, float* hidden);
    void attend_to_source(int n, const Step& step, float* hidden);
    void feed_forward(int n, int rows, float* hidden);
    void attend_to_path(int n, const std::vector<int>& path, const float* query, float* out);

    const Model& model_;
    const Kernels& ops_;
    Nodes& nodes_;
    Copies& copies_;
    SourceProjection projection_;
    Scratch& scratch_;
    Meter& meter_;
    std::vector<const float*> keys_, values_;
    Buffer<float> kvq_, gathered_, delta_, inner_, scores_;
};

}  // namespace anydepth
