#include "search/worker.h"

#include <chrono>
#include <cstring>

namespace anydepth {

Worker::Worker(const Job& job, Team* team)
    : model_(job.model),
      queue_(job.queue),
      is_deferred_(job.batching.is_deferred),
      nodes_(job.model.shape.key_blocks, job.model.shape.decoder_dim, job.model.shape.attends_first),
      copies_(job.model, nodes_, scratch_, meter_.counts),
      decoder_(job.model, nodes_, copies_, scratch_, meter_),
      decisions_(job.model, scratch_),
      words_(job.model, nodes_, scratch_),
      beam_(job.model, nodes_, job.queue),
      admission_(job, decisions_, scratch_, meter_) {
    scratch_.team = team;
}

void Worker::run(const std::function<void()>& look_up) {
    auto looked_up = meter_.start();
    while (!queue_.is_over()) {
        beam_.drop_cancelled(active_);
        admission_.admit(active_);
        if (active_.empty()) break;
        take_step();
        if (look_up && meter_.since() - looked_up > std::chrono::milliseconds(100)) {
            look_up();
            looked_up = meter_.since();
        }
    }
    meter_.counts.decoder_flops = scratch_.flops;
    meter_.counts.nodes = (int64_t)nodes_.size();
}

// One more token of every row.
void Worker::take_step() {
    step_.begin(active_, model_.shape.blocks);
    float* hidden = hidden_.at_least((size_t)step_.rows() * model_.shape.decoder_dim);
    begin_step(hidden);
    for (int n = 1; n <= model_.shape.blocks && !step_.running.empty(); ++n) {
        decisions_.look_at(n, step_, hidden);
        decoder_.run_block(n, step_, hidden);
        decisions_.decide(n, step_, hidden);
        leave(n, hidden);
        meter_.spent(deciding);
    }
    if (!is_deferred_) copies_.make_all(step_);
    meter_.spent(copying);
    words_.score(step_);
    meter_.spent(scoring_words);
    for (auto& sentence : active_) ++sentence->time;
    beam_.choose(active_, step_);
    meter_.spent(choosing);
}

// Embeds the last token of every row and gives it a node.
void Worker::begin_step(float* hidden) {
    ++meter_.counts.steps;
    meter_.counts.rows += step_.rows();
    decoder_.embed(step_, hidden);
    decisions_.begin(step_);
    for (const StepRow& each : step_.running) {
        std::vector<int>& path = each.hypothesis().path;
        const int node = nodes_.add(path.empty() ? -1 : path.back());
        step_.nodes[each.row] = node;
        path.push_back(node);
    }
}

// Takes the rows whose exit is n out of the running ones and closes the gaps; their states go to
// their nodes.
void Worker::leave(int n, float* hidden) {
    const int dim = model_.shape.decoder_dim;
    size_t kept = 0;
    for (size_t r = 0; r < step_.running.size(); ++r) {
        const int row = step_.running[r].row;
        float* own = hidden + r * dim;
        if (step_.exits[row] <= n) {
            std::memcpy(nodes_.state(step_.nodes[row]), own, sizeof(float) * dim);
            continue;
        }
        step_.logits[row] = nullptr;  // what it decided by, if anything, is not what it leaves with
        step_.sums[row] = 0.0f;
        if (kept != r) std::memcpy(hidden + kept * dim, own, sizeof(float) * dim);
        step_.running[kept++] = step_.running[r];
    }
    step_.running.resize(kept);
}

}  // namespace anydepth
