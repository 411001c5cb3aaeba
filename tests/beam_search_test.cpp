// Beam search: Hugging Face's results, the best of all texts, a model with a cache, and errors.
#include "nn/beam_search.h"

#include <cmath>

#include "amp/autocast.h"
#include "autograd/grad_mode.h"
#include "core/operators.h"
#include "core/ops.h"
#include "core/random.h"
#include "nn/embedding.h"
#include "nn/functions.h"
#include "nn/linear.h"
#include "tests/golden/golden.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t vocabulary = 8;

// Logits depend on the last token only.
nn::Decoder markov(const Tensor& table) {
  return [table](const Tensor& tokens, const nn::KvCache&) {
    return reshape(index_select(table, 0, tokens.flatten()), {tokens.size(0), tokens.size(1), table.size(1)});
  };
}
// Logits depend on the last token and its place.
nn::Decoder golden_model(double seed) {
  return [seed, place = std::int64_t{0}](const Tensor& tokens, const nn::KvCache&) mutable {
    std::vector<float> logits;
    for (std::int64_t n = 0; n < tokens.size(0); ++n)
      for (std::int64_t t = 0; t < tokens.size(1); ++t)
        for (std::int64_t j = 0; j < vocabulary; ++j) {
          const auto i = static_cast<double>(tokens[n][t].item<std::int64_t>());
          const auto at = static_cast<double>(place + t);
          const double angle = 12.9898 * i + 78.233 * static_cast<double>(j) + 37.719 * seed + 4.581 * at;
          logits.push_back(static_cast<float>(3 * std::sin(angle)));
        }
    place += tokens.size(1);
    return from_data(logits, {tokens.size(0), tokens.size(1), vocabulary});
  };
}

struct Net {  // one attention layer with a cache
  nn::Embedding token{vocabulary, 16};
  nn::Linear query{16, 16}, key{16, 16}, value{16, 16}, out{16, vocabulary};
  MANTISSA_FIELDS(token, query, key, value, out)
  Tensor operator()(const Tensor& tokens, const nn::KvCache& cache = nn::no_cache) const {
    const nn::LayerCache past = cache[0];
    const Tensor x = token(tokens) * 3;
    const auto heads = [](const Tensor& y) { return y.reshape({y.size(0), y.size(1), 2, 8}).transpose(1, 2); };
    const Tensor q = rotary_embedding(heads(query(x)), past.length()),
                 k = rotary_embedding(heads(key(x)), past.length());
    const Tensor y = nn::causal_attention(q, k, heads(value(x)), past);
    return out(x + y.transpose(1, 2).reshape(x.sizes())) * 4;
  }
};

// The sum of the log-probabilities of what follows the first `prompt` tokens, up to the first eos.
double log_probability(const Net& net, const Tensor& text, std::int64_t prompt, std::int64_t eos, std::int64_t& count) {
  const NoGrad no_grad;
  const Tensor p = log_softmax(net(text.unsqueeze(0)), -1)[0];
  double sum = 0;
  count = 0;
  for (std::int64_t i = prompt; i < text.numel(); ++i) {
    const auto next = text[i].item<std::int64_t>();
    sum += p[i - 1][next].item();
    ++count;
    if (next == eos) break;
  }
  return sum;
}

}  // namespace

TEST_CASE("Hugging Face's beam search") {
  const Golden golden("beam_search");
  constexpr int cases = 48;
  REQUIRE(golden.cases().size() == cases);
  for (int i = 0; i < cases; ++i) {
    const auto o = golden.find(concat(i, "/options")).to_vector<double>();
    INFO("case " << i);
    const auto beams = static_cast<std::int64_t>(o[1]);
    const nn::Beams found =
        nn::beam_search(golden_model(o[0]), from_data<std::int64_t>(std::vector<std::int64_t>{1, 4, 2, 7}, {2, 2}),
                        {.beams = beams,
                         .max_new_tokens = static_cast<std::int64_t>(o[4]),
                         .eos = static_cast<std::int64_t>(o[5]),
                         .length_penalty = o[2],
                         .returned = beams,
                         .early_stopping = o[3] != 0});
    CHECK(found.tokens.to_vector<std::int64_t>() == golden.find(concat(i, "/tokens")).to_vector<std::int64_t>());
    CHECK(allclose(found.scores, golden.find(concat(i, "/scores")), 1e-5, 1e-5));
  }
}

TEST_CASE("with as many beams as texts it finds the best text of all") {
  manual_seed(test::seed());
  INFO("seed " << test::seed());
  for (int round = 0; round < 5; ++round) {
    const Tensor table = randn({4, 4}) * 2, p = log_softmax(table, -1);
    const nn::Beams found =
        nn::beam_search(markov(table), from_data<std::int64_t>(std::vector<std::int64_t>{2}, {1, 1}),
                        {.beams = 256, .max_new_tokens = 4, .returned = 3});
    double best = -HUGE_VAL;
    std::vector<std::int64_t> text(4), expected;
    for (int code = 0; code < 256; ++code) {
      double sum = 0;
      std::int64_t last = 2;
      for (int i = 0, rest = code; i < 4; ++i, rest /= 4) {
        text[static_cast<std::size_t>(i)] = rest % 4;
        sum += p[last][rest % 4].item();
        last = rest % 4;
      }
      if (sum > best) best = sum, expected = text;
    }
    CHECK(found.tokens[0][0].slice(0, 1).to_vector<std::int64_t>() == expected);
    CHECK(found.scores[0][0].item() == Approx(best / 4).epsilon(1e-5));
    CHECK(found.scores[0][0].item() >= found.scores[0][1].item());
  }
}

TEST_CASE("a model with a cache: each score is its text's, and one beam is the greedy text") {
  manual_seed(test::seed());
  INFO("seed " << test::seed());
  Net net;
  nn::eval(net);
  const Tensor prompts = randint(vocabulary, {3, 5});
  constexpr std::int64_t eos = 1;
  const nn::Beams found = nn::beam_search(
      net, prompts, {.beams = 4, .max_new_tokens = 12, .eos = eos, .length_penalty = 0.7, .returned = 4});
  REQUIRE(found.tokens.size(0) == 3);
  REQUIRE(found.tokens.size(1) == 4);
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t k = 0; k < 4; ++k) {
      const Tensor text = found.tokens[i][k];
      CHECK(equal(text.slice(0, 0, 5), prompts[i]));
      std::int64_t count = 0;
      const double sum = log_probability(net, text, 5, eos, count);
      CHECK(found.scores[i][k].item() ==
            Approx(sum / std::pow(static_cast<double>(count), 0.7)).epsilon(1e-4).margin(2e-5));
      if (k > 0) CHECK(found.scores[i][k - 1].item() >= found.scores[i][k].item());
    }
  const Tensor greedy = nn::generate(net, prompts, {.max_new_tokens = 9, .sample = {.temperature = 0}});
  const nn::Beams one = nn::beam_search(net, prompts, {.beams = 1, .max_new_tokens = 9});
  CHECK(equal(one.tokens.squeeze(1), greedy));

  // Without a cache, by the option or because the function takes none, whole texts give the same.
  const auto plain = [&](const Tensor& tokens) { return net(tokens); };
  CHECK(equal(nn::generate(plain, prompts, {.max_new_tokens = 9, .sample = {.temperature = 0}}), greedy));
  const nn::BeamSearchOptions o{.beams = 3, .max_new_tokens = 7, .eos = eos, .returned = 2};
  const nn::Beams with = nn::beam_search(net, prompts, o), without = nn::beam_search(plain, prompts, o);
  CHECK(equal(with.tokens, without.tokens));
  CHECK(allclose(with.scores, without.scores, 1e-4, 1e-5));
  // Scores are replaced, knowing the texts.
  nn::BeamSearchOptions changed = o;
  changed.logits_processor = [&](const Tensor& texts, const Tensor& scores) {
    CHECK(allclose(scores, log_softmax(net(texts)[{all, -1}], -1), 1e-3, 1e-4));
    return index_fill(scores, 1, tensor({2, 3, 5}), -HUGE_VAL);
  };
  const Tensor texts = nn::beam_search(net, prompts, changed).tokens[{all, all, slice(5)}];
  for (const int forbidden : {2, 3, 5}) CHECK(!any(texts == forbidden).item<bool>());
  changed.logits_processor = [&](const Tensor&, const Tensor& scores) { return scores[0]; };
  CHECK_THROWS_WITH(nn::beam_search(net, prompts, changed), Contains("logits_processor must give scores f32[3, 8]"));
  // Of a long text the model sees its last tokens.
  std::int64_t longest = 0;
  const auto measured = [&](const Tensor& tokens) {
    longest = std::max(longest, tokens.size(1));
    return net(tokens);
  };
  nn::generate(measured, prompts, {.max_new_tokens = 9, .context = 6});
  CHECK(longest == 6);
}

TEST_CASE("what beam search cannot do is an error") {
  const Tensor table = randn({4, 4}), tokens = zeros({2, 3}, {.dtype = i64});
  CHECK_THROWS_WITH(nn::beam_search(markov(table), zeros({2, 3})), Contains("needs tokens i64 [N, T]"));
  CHECK_THROWS_WITH(nn::beam_search(markov(table), tokens, {.beams = 0}), Contains("needs beams"));
  CHECK_THROWS_WITH(nn::beam_search(markov(table), tokens, {.beams = 2, .returned = 3}), Contains("got 2, 100 and 3"));
  CHECK_THROWS_WITH(nn::beam_search(markov(table), tokens, {.eos = -1}), Contains("must not be negative"));
  CHECK_THROWS_WITH(nn::beam_search(nn::Decoder(), tokens), Contains("there is no model"));
  CHECK_THROWS_WITH(nn::beam_search(
                        [](const Tensor& t, const nn::KvCache&) {
                          return randn({t.size(0), 4});
                        },
                        tokens),
                    Contains("must give logits [2, t, V]"));
  CHECK_THROWS_WITH(nn::beam_search(markov(full({4, 4}, NAN)), tokens), Contains("have NaN"));
  // Forbidden tokens are never chosen, even if too few others remain for all beams.
  Tensor sparse = full({4, 4}, -HUGE_VAL);
  for (std::int64_t i = 0; i < 4; ++i) sparse[i][(i + 1) % 4].fill_(0);
  const nn::Beams found = nn::beam_search(markov(sparse), tokens, {.beams = 3, .max_new_tokens = 3, .returned = 3});
  CHECK(found.tokens[1][0].to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 0, 0, 1, 2, 3});
  CHECK(found.scores[1][0].item() == 0);
  CHECK(found.scores[1][1].item() == -HUGE_VAL);
}
