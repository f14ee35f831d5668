// What Python sees: an engine made from the tensors of a model, and its searches.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>

#include "search/open_search.h"
#include "search/search.h"

namespace py = pybind11;
using namespace anydepth;
using Tensor = py::array_t<float, py::array::c_style>;

namespace {

std::vector<const Kernels*> available() {
    std::vector<const Kernels*> sets;
#ifdef ANYDEPTH_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vnni"))
        sets.push_back(&kernels_avx512);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) sets.push_back(&kernels_avx2);
#endif
    sets.push_back(&kernels_plain);
    return sets;
}

const Kernels& kernels_named(const std::string& name) {
    for (const Kernels* set : available())
        if (name.empty() || name == set->name) return *set;
    throw py::value_error("this processor has no " + name);
}

// `plan` is which of the policy's plans is that of the sentence.
RequestPointer make_request(int64_t number, std::vector<int> source, int limit, size_t plan,
                            std::shared_ptr<const Terms> terms) {
    auto request = std::make_shared<Request>();
    request->number = number;
    request->source = std::move(source);
    request->limit = limit;
    request->plan = plan;
    request->terms = std::move(terms);
    return request;
}

class Engine {
  public:
    Engine(const Shape& shape, const std::map<std::string, Tensor>& tensors,
           const std::vector<std::string>& classifiers, const std::string& halting, int halting_units, bool is_int8,
           const std::string& instructions)
        : tensors_(tensors),
          model_(kernels_named(instructions), shape, is_int8, kind_of(halting), halting_units, classifiers,
                 [this](const std::string& name) { return tensors_.at(name).data(); }) {}

    py::tuple search(std::vector<std::vector<int>> sources, const std::vector<int>& limits, const Policy& policy,
                     const Settings& settings, const Batching& batching,
                     std::shared_ptr<const Selection> selection) const {
        Counts counts;
        std::vector<std::vector<Found>> found;
        {
            const py::gil_scoped_release release;
            const auto terms = std::make_shared<const Terms>(Terms{policy, settings, std::move(selection)});
            std::vector<RequestPointer> requests;
            for (size_t s = 0; s < sources.size(); ++s)
                requests.push_back(make_request((int64_t)s, std::move(sources[s]), limits.at(s), s, terms));
            found = anydepth::search(model_, std::move(requests), batching, counts, [] {
                const py::gil_scoped_acquire acquire;
                if (PyErr_CheckSignals() != 0) throw py::error_already_set();
            });
        }
        return py::make_tuple(found, counts);
    }
    std::unique_ptr<OpenSearch> open(const Batching& batching) const {
        return std::make_unique<OpenSearch>(model_, batching);
    }
    const char* instructions() const { return model_.kernels.name; }

    // A selection of words for this model; `weight` and `bias` of a learned one, or none.
    Selection selection(std::vector<int> always, std::vector<int> copies, std::vector<int> bytes,
                        std::vector<bool> is_spelled, std::vector<int> starts, std::vector<int> words,
                        const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
                        float least_odds) const {
        Selection made{model_.shape.target_vocab, std::move(always), std::move(copies), std::move(bytes),
                       std::move(is_spelled),     std::move(starts), std::move(words),  {}};
        check(made);
        if (weight) {
            const py::ssize_t vocab = model_.shape.target_vocab;
            if (!bias || weight->ndim() != 2 || weight->shape(0) != vocab || bias->size() != vocab ||
                weight->shape(1) != model_.shape.encoder_dim)
                throw py::value_error("the learned word selection is of another model");
            made.learned = Matrix(model_.kernels, {weight->data()}, {bias.value().data()}, model_.shape.target_vocab,
                                  model_.shape.encoder_dim, false);
            made.is_learned = true;
            made.least_odds = least_odds;
        }
        return made;
    }

  private:
    // Refuses numbers that would lead out of the tables of the model.
    static void check(const Selection& made) {
        const auto are_words = [&](const std::vector<int>& words, int least) {
            return std::all_of(words.begin(), words.end(),
                               [&](int word) { return word >= least && word < made.vocab; });
        };
        const bool is_table = made.starts.empty() || (made.starts.size() == made.copies.size() + 1 &&
                                                      made.starts.front() == 0 &&
                                                      made.starts.back() == (int)made.words.size() &&
                                                      std::is_sorted(made.starts.begin(), made.starts.end()));
        const bool is_spelled = made.is_spelled.empty() || made.is_spelled.size() == made.copies.size();
        if (!is_table || !is_spelled || !are_words(made.always, 0) || !are_words(made.copies, -1) ||
            !are_words(made.bytes, 0) || !are_words(made.words, 0))
            throw py::value_error("the word selection is of another vocabulary");
    }
    static Halting kind_of(const std::string& name) {
        if (name == "sequence") return Halting::sequence;
        if (name == "multinomial") return Halting::multinomial;
        if (name == "geometric") return Halting::geometric;
        if (name == "none") return Halting::none;
        throw py::value_error("there is no halting module " + name);
    }
    std::map<std::string, Tensor> tensors_;  // holds the numbers that the model points to
    Model model_;
};

double linear_seconds(int m, int k, int n, bool is_int8, int repeats, const std::string& instructions) {
    if (repeats < 1) throw py::value_error("a median needs at least one repeat");
    const Kernels& kernels = kernels_named(instructions);
    const std::vector<float> weights((size_t)n * k, 0.01f), x((size_t)m * k, 0.5f);
    std::vector<float> y((size_t)m * n);
    const Matrix matrix(kernels, {weights.data()}, {}, n, k, is_int8);
    Scratch scratch;
    std::vector<double> seconds;
    for (int i = 0; i < repeats + 1; ++i) {  // the first only warms up
        const auto started = std::chrono::steady_clock::now();
        matrix.apply(kernels, x.data(), m, y.data(), scratch);
        if (i) seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count());
    }
    std::nth_element(seconds.begin(), seconds.begin() + repeats / 2, seconds.end());
    return seconds[repeats / 2];
}

std::vector<std::string> instruction_sets() {
    std::vector<std::string> names;
    for (const Kernels* set : available()) names.emplace_back(set->name);
    return names;
}

// What a search is given.
void bind_given(py::module_& module) {
    py::enum_<Activation>(module, "Activation")
        .value("relu", Activation::relu)
        .value("gelu", Activation::gelu)
        .value("swish", Activation::swish);
    py::class_<Shape>(module, "Shape")
        .def(py::init([](int encoder_heads, int decoder_heads, int encoder_dim, int encoder_ffn, int decoder_dim,
                         int decoder_ffn, int encoder_blocks, int blocks, int target_vocab, Activation activation,
                         bool has_scaled_embeddings, bool has_output_bias, int adapter, bool attends_first,
                         int key_blocks) {
                 return Shape{encoder_heads, decoder_heads, encoder_dim,           encoder_ffn,
                              decoder_dim,   decoder_ffn,   encoder_blocks,        blocks,
                              target_vocab,  activation,    has_scaled_embeddings, has_output_bias,
                              adapter,       attends_first, key_blocks};
             }),
             py::kw_only(), py::arg("encoder_heads"), py::arg("decoder_heads"), py::arg("encoder_dim"),
             py::arg("encoder_ffn"), py::arg("decoder_dim"), py::arg("decoder_ffn"), py::arg("encoder_blocks"),
             py::arg("blocks"), py::arg("target_vocab"), py::arg("activation"), py::arg("has_scaled_embeddings"),
             py::arg("has_output_bias"), py::arg("adapter"), py::arg("attends_first"),
             py::arg("key_blocks"));
    py::enum_<Rule>(module, "Rule")
        .value("planned", Rule::planned)
        .value("sequence", Rule::sequence)
        .value("multinomial", Rule::multinomial)
        .value("geometric", Rule::geometric)
        .value("confidence", Rule::confidence)
        .value("margin", Rule::margin)
        .value("similarity", Rule::similarity)
        .value("shortlist", Rule::shortlist);
    py::class_<Policy>(module, "Policy")
        .def(py::init([](Rule rule, std::vector<float> thresholds, int shortlist, std::vector<std::vector<int>> plans,
                         bool watch) {
                 return Policy{rule, std::move(thresholds), shortlist, std::move(plans), watch};
             }),
             py::kw_only(), py::arg("rule"), py::arg("thresholds") = std::vector<float>{}, py::arg("shortlist") = 0,
             py::arg("plans") = std::vector<std::vector<int>>{}, py::arg("is_halting_watched") = false);
    py::class_<Selection, std::shared_ptr<Selection>>(module, "Selection");
    py::class_<Settings>(module, "Settings")
        .def(py::init([](int beam, int best, double length_penalty, bool early_stopping, std::vector<int> banned,
                         int eos, int bos) {
                 return Settings{beam, best, length_penalty, early_stopping, std::move(banned), eos, bos};
             }),
             py::kw_only(), py::arg("beam"), py::arg("best"), py::arg("length_penalty"), py::arg("early_stopping"),
             py::arg("banned"), py::arg("eos"), py::arg("bos"));
    py::class_<Batching>(module, "Batching")
        .def(py::init([](int sentences, int64_t tokens, bool is_deferred, int threads) {
                 if (sentences < 1 || threads < 1) throw py::value_error("a batch needs a sentence and a thread");
                 return Batching{sentences, tokens, is_deferred, threads};
             }),
             py::kw_only(), py::arg("sentences"), py::arg("tokens"), py::arg("is_deferred") = true,
             py::arg("threads") = 1);
}

void bind_open_search(py::module_& module) {
    py::class_<OpenSearch>(module, "OpenSearch")
        .def(
            "submit",
            [](OpenSearch& open, int64_t number, int64_t owner, std::vector<int> source, int limit,
               const Policy& policy, const Settings& settings, std::shared_ptr<const Selection> selection) {
                auto terms = std::make_shared<const Terms>(Terms{policy, settings, std::move(selection)});
                RequestPointer request = make_request(number, std::move(source), limit, 0, std::move(terms));
                request->owner = owner;
                open.queue().submit(std::move(request));
            },
            py::arg("number"), py::arg("owner"), py::arg("source"), py::arg("limit"), py::arg("policy"),
            py::arg("settings"), py::arg("selection") = nullptr)
        .def("cancel", [](OpenSearch& open, int64_t number) { return open.queue().cancel(number); }, py::arg("number"))
        .def(
            "take",
            [](OpenSearch& open, int64_t timeout_ms) {
                return open.queue().results(std::chrono::milliseconds(timeout_ms));
            },
            py::arg("timeout_ms"), py::call_guard<py::gil_scoped_release>())
        .def(
            "close", [](OpenSearch& open, bool drain) { drain ? open.queue().close() : open.queue().stop(); },
            py::arg("drain"))
        .def("join", &OpenSearch::join, py::call_guard<py::gil_scoped_release>());
}

// The line of an open search without its workers: for tests of who comes when.
void bind_queue(py::module_& module) {
    py::class_<Queue>(module, "Queue")
        .def(py::init<int>(), py::arg("workers") = 1)
        .def(
            "submit",
            [](Queue& queue, int64_t number, int64_t owner) {
                auto request = std::make_shared<Request>();
                request->number = number;
                request->owner = owner;
                queue.submit(std::move(request));
            },
            py::arg("number"), py::arg("owner"))
        .def("cancel", &Queue::cancel, py::arg("number"))
        .def("close", &Queue::close)
        .def(
            "take",
            [](Queue& queue, int places, int most) {
                std::vector<int64_t> numbers;
                for (const RequestPointer& request : queue.take(places, most, false))
                    numbers.push_back(request->number);
                return numbers;
            },
            py::arg("places"), py::arg("most"));
}

// What a search gives back.
void bind_found(py::module_& module) {
    py::class_<Found>(module, "Found")
        .def_readonly("tokens", &Found::tokens)
        .def_readonly("exits", &Found::exits)
        .def_readonly("token_scores", &Found::token_scores)
        .def_readonly("score", &Found::score)
        .def_readonly("has_finished", &Found::has_finished)
        .def_readonly("words", &Found::words);
    py::class_<Counts>(module, "Counts")
        .def_readonly("encoder_flops", &Counts::encoder_flops)
        .def_readonly("decoder_flops", &Counts::decoder_flops)
        .def_readonly("copied_pairs", &Counts::copied_pairs)
        .def_readonly("rows", &Counts::rows)
        .def_readonly("steps", &Counts::steps)
        .def_readonly("nodes", &Counts::nodes)
        .def_property_readonly("seconds", [](const Counts& counts) {
            std::map<std::string, double> seconds;
            for (int phase = 0; phase < PHASES; ++phase) seconds[PHASE_NAMES[phase]] = counts.seconds[phase];
            return seconds;
        });
}

}  // namespace

PYBIND11_MODULE(_native, module) {
    module.doc() = "Beam search with early exits, compiled.";
    module.def("instruction_sets", &instruction_sets);
    module.def("linear_seconds", &linear_seconds, "The time of one product, median of several: for benchmarks.",
               py::arg("m"), py::arg("k"), py::arg("n"), py::arg("is_int8"), py::arg("repeats") = 20,
               py::arg("instructions") = "");
    bind_given(module);
    bind_found(module);
    bind_open_search(module);
    bind_queue(module);
    py::class_<Engine>(module, "Engine")
        .def(py::init<const Shape&, const std::map<std::string, Tensor>&, const std::vector<std::string>&,
                      const std::string&, int, bool, const std::string&>(),
             py::kw_only(), py::arg("shape"), py::arg("tensors"), py::arg("classifiers"), py::arg("halting"),
             py::arg("halting_units"), py::arg("is_int8"), py::arg("instructions") = "")
        .def_property_readonly("instructions", &Engine::instructions)
        .def("selection", &Engine::selection, py::kw_only(), py::arg("always"), py::arg("copies"),
             py::arg("bytes") = std::vector<int>{}, py::arg("is_spelled") = std::vector<bool>{},
             py::arg("starts") = std::vector<int>{}, py::arg("words") = std::vector<int>{},
             py::arg("weight") = py::none(), py::arg("bias") = py::none(), py::arg("least_odds") = 0.0f)
        .def("search", &Engine::search, py::arg("sources"), py::arg("limits"), py::arg("policy"), py::arg("settings"),
             py::arg("batching"), py::arg("selection") = nullptr)
        .def("open", &Engine::open, py::arg("batching"), py::keep_alive<0, 1>());
}
