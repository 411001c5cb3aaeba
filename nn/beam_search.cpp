#include "nn/beam_search.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "amp/autocast.h"
#include "autograd/grad_mode.h"
#include "core/ops.h"

namespace mantissa::nn {
namespace {

using Text = std::vector<std::int64_t>;

struct Beam {
  Text text;    // new tokens
  float score;  // the sum of their log-probabilities
};
struct Finished {
  Text text;
  double score;  // with the length penalty
};

// What is known about one prompt.
struct Search {
  const BeamSearchOptions& o;
  std::vector<Beam> running = {{{}, 0}};  // the best first
  std::vector<Finished> finished = {};    // likewise, at most `beams`
  bool done = false;

  // Takes candidates, the best first: at[i] is the number of the running beam that it continues, times `vocabulary`,
  // plus its token. Afterwards parents[i] is the beam that running[i] continues.
  void step(const std::int64_t* at, std::int64_t vocabulary, const float* score, std::int64_t count, bool last,
            std::vector<std::int64_t>& parents) {
    std::vector<Beam> next;
    for (std::int64_t i = 0; i < count && static_cast<std::int64_t>(next.size()) < o.beams; ++i) {
      if (score[i] == -HUGE_VALF) break;
      const std::int64_t beam = at[i] / vocabulary, token = at[i] % vocabulary;
      Beam candidate{running[static_cast<std::size_t>(beam)].text, score[i]};
      candidate.text.push_back(token);
      if (last || (o.eos && token == *o.eos)) {
        if (i < o.beams) finish(candidate);  // a worse one has no right to end
        continue;
      }
      next.push_back(std::move(candidate));
      parents.push_back(beam);
    }
    running = std::move(next);
    if (running.empty()) done = true;
    else if (static_cast<std::int64_t>(finished.size()) == o.beams)
      done = o.early_stopping || finished.back().score >= with_penalty(running[0]);
  }
  double with_penalty(const Beam& b) const {
    return b.score / std::pow(static_cast<double>(b.text.size()), o.length_penalty);
  }
  void finish(const Beam& b) {
    const double score = with_penalty(b);
    const auto at = std::ranges::upper_bound(finished, score, std::greater<>{}, &Finished::score);
    finished.insert(at, {b.text, score});
    if (static_cast<std::int64_t>(finished.size()) > o.beams) finished.pop_back();
  }
};

void check_options(const BeamSearchOptions& o, const Tensor& tokens) {
  check(tokens.dim() == 2 && tokens.numel() > 0 && tokens.dtype() == i64, "beam_search: needs tokens i64 [N, T], got ",
        tokens);
  check(o.beams >= 1 && o.max_new_tokens >= 1 && o.returned >= 1 && o.returned <= o.beams,
        "beam_search: needs beams, new tokens, and at most as many texts returned as beams, got ", o.beams, ", ",
        o.max_new_tokens, " and ", o.returned);
  check(!o.eos || *o.eos >= 0, "beam_search: the token that ends a text must not be negative, got ", o.eos.value_or(0));
}

}  // namespace

Beams beam_search(const Decoder& model, const Tensor& tokens, const BeamSearchOptions& o) {
  check_options(o, tokens);
  check(static_cast<bool>(model), "beam_search: there is no model");
  const NoGrad no_grad;
  const KvCache cache;
  const std::int64_t n = tokens.size(0);
  std::vector<Search> searches(static_cast<std::size_t>(n), Search{o});
  Tensor text = tokens, next = tokens;  // of the running beams
  std::int64_t rows = 1;  // running beams of each prompt that the model is called with
  for (std::int64_t step = 0; step < o.max_new_tokens; ++step) {
    const Tensor logits = model(next, o.use_cache ? cache : no_cache);
    check(logits.dim() == 3 && logits.size(0) == n * rows && logits.size(1) > 0 && logits.is_floating(),
          "beam_search: the model must give logits [", n * rows, ", t, V], got ", logits);
    const std::int64_t vocabulary = logits.size(2);
    std::vector<float> so_far;
    for (const Search& s : searches)
      for (std::int64_t b = 0; b < rows; ++b)
        so_far.push_back(b < static_cast<std::int64_t>(s.running.size()) ? s.running[static_cast<std::size_t>(b)].score
                                                                         : -HUGE_VALF);
    const amp::Autocast off(amp::disabled);
    const Tensor before = from_data(so_far, {n * rows, 1}).to(logits.device());
    Tensor scores = log_softmax(cast(select(logits, 1, -1), f32), -1);
    if (o.logits_processor) {
      scores = o.logits_processor(text, scores);
      check(scores.defined() && scores.sizes() == Dims{n * rows, vocabulary} && scores.dtype() == f32,
            "beam_search: logits_processor must give scores f32[", n * rows, ", ", vocabulary, "], got ", scores);
    }
    scores = reshape(scores + before, {n, rows * vocabulary});
    const std::int64_t count = std::min(2 * o.beams, rows * vocabulary);
    const auto [best, index] = topk(scores, count);
    const Tensor best_here = best.to(cpu), at = index.to(cpu);
    check(!any(isnan(best_here)).item<bool>(), "beam_search: the logits ", logits, " have NaN");

    std::vector<std::int64_t> chosen, from;  // tokens and rows of the next call, o.beams for each prompt
    bool all_done = true;
    for (std::int64_t i = 0; i < n; ++i) {
      Search& s = searches[static_cast<std::size_t>(i)];
      std::vector<std::int64_t> parents;
      if (!s.done)
        s.step(at.data<std::int64_t>() + i * count, vocabulary, best_here.data<float>() + i * count, count,
               step + 1 == o.max_new_tokens, parents);
      all_done = all_done && s.done;
      for (std::int64_t b = 0; b < o.beams; ++b) {  // rows without a beam repeat one, and their score is -infinity
        const auto k = static_cast<std::size_t>(b);
        from.push_back(i * rows + (k < parents.size() ? parents[k] : 0));
        chosen.push_back(k < parents.size() ? s.running[k].text.back() : 0);
      }
    }
    if (all_done) break;
    rows = o.beams;
    const Tensor parents = from_data(from, {n * rows}).to(tokens.device()),
                 last = from_data(chosen, {n * rows, 1}).to(tokens.device());
    text = cat({index_select(text, 0, parents), last}, 1);
    if (o.use_cache) cache.select(parents);
    next = o.use_cache ? last : text;
  }

  std::size_t longest = 0;
  for (const Search& s : searches)
    for (std::size_t k = 0; k < s.finished.size() && k < static_cast<std::size_t>(o.returned); ++k)
      longest = std::max(longest, s.finished[k].text.size());
  std::vector<std::int64_t> texts;
  std::vector<float> scores;
  for (const Search& s : searches)
    for (std::size_t k = 0; k < static_cast<std::size_t>(o.returned); ++k) {
      Text text = k < s.finished.size() ? s.finished[k].text : Text();
      scores.push_back(k < s.finished.size() ? static_cast<float>(s.finished[k].score) : -HUGE_VALF);
      text.resize(longest, o.eos.value_or(0));
      texts.insert(texts.end(), text.begin(), text.end());
    }
  const Device device = tokens.device();
  const auto length = static_cast<std::int64_t>(longest);
  const Tensor prompts = unsqueeze(tokens, 1).expand({n, o.returned, tokens.size(1)});
  return {cat({prompts, from_data(texts, {n, o.returned, length}).to(device)}, 2),
          from_data(scores, {n, o.returned}).to(device)};
}

}  // namespace mantissa::nn
