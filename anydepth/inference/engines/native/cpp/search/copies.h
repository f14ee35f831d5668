// Keys and values of tokens at the blocks above their exits, made from the state with which they
// left; or those of all blocks above the first, where these attend to the states after it.
#pragma once

#include <vector>

#include "model/model.h"
#include "search/counts.h"
#include "search/nodes.h"
#include "search/step.h"

namespace anydepth {

class Copies {
  public:
    Copies(const Model& model, Nodes& nodes, Scratch& scratch, Counts& counts)
        : model_(model), nodes_(nodes), scratch_(scratch), counts_(counts) {}

    // The deferred way: block n is about to run, and makes what the paths of its rows lack there, in
    // one product for all running rows.
    void make_at(int n, const Step& step);

    // The plain way: every token of the step gets those of all blocks above its exit now.
    void make_all(const Step& step);

  private:
    void want(int id, int n);
    void fill(int n);

    const Model& model_;
    Nodes& nodes_;
    Scratch& scratch_;
    Counts& counts_;
    std::vector<int> pending_;  // nodes that lack the pair of a block
    Buffer<float> states_, pairs_;
};

}  // namespace anydepth
