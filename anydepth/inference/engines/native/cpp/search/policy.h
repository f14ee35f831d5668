// The policy of a sentence: the rule by which every row chooses its exit.
#pragma once

#include <vector>

namespace anydepth {

enum class Rule { planned, sequence, multinomial, geometric, confidence, margin, similarity, shortlist };

struct Policy {
    Rule rule = Rule::planned;
    std::vector<float> thresholds;  // one for each block but the last
    int shortlist = 0;              // words of the rule of that name
    // For the planned rule: the exit of each token, for each sentence of the policy; the last one
    // continues.
    std::vector<std::vector<int>> plans;
    bool is_halting_watched = false;  // evaluate the geometric module after each block and ignore it: for timing
};

}  // namespace anydepth
