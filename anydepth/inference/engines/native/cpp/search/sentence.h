// A sentence while it is searched: its source, its rows, and the record of all that was chosen.
#pragma once

#include <memory>
#include <vector>

#include "model/buffer.h"
#include "model/matrix.h"
#include "search/request.h"
#include "search/selection.h"

namespace anydepth {

// A token in the record of a sentence's search, pointing back to the one before it.
struct Entry {
    int parent, token, exit;
    float score;
};

// A hypothesis that has not ended.
struct Row {
    int token, entry;
    float total;
    std::vector<int> path;  // nodes from the first token to the last
};

struct SourceKeys {
    Buffer<float> keys, values;
    bool is_ready = false;
};

// What a source sentence is to the decoder; sentences with the same text and words share it.
struct Source {
    std::vector<float> memory;
    std::vector<SourceKeys> keys;  // one for each block, made when the block first runs
    SentenceWords words;
    std::vector<Matrix> gathered;  // what each classifier keeps of these words, made when it is first asked
};

struct Sentence {
    std::shared_ptr<const Request> request;
    int length = 0, padded = 0, time = 0, planned = 0;
    std::shared_ptr<Source> source;
    std::vector<Row> rows;
    std::vector<Entry> entries;
    struct End {
        int entry;
        bool has_finished;
    };
    std::vector<End> ends;  // entries with which hypotheses came to their end, in that order
    int finished = 0;
    std::vector<float> ended;  // the `beam` best scores of those that have finished, best first

    const Policy& policy() const { return request->terms->policy; }
    const Settings& settings() const { return request->terms->settings; }
};

using Sentences = std::vector<std::unique_ptr<Sentence>>;

}  // namespace anydepth
