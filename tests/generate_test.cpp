// Generation with a cache: attention and whole models fed in pieces compared with the whole sequence at once, in f64
// and rounded to each dtype; the sampling of a token; the loop.
#include "nn/generate.h"

#include <algorithm>
#include <cmath>

#include "amp/autocast.h"
#include "autograd/grad_mode.h"
#include "core/cpu/isa.h"
#include "core/operators.h"
#include "nn/embedding.h"
#include "nn/functions.h"
#include "nn/kv_cache.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

using Pieces = std::vector<std::int64_t>;
const Pieces one_by_one(70, 1);

// Rows [N, H, T, D] of a projection in the layout that layers produce: heads are contiguous within a position.
Tensor heads_of(const Dims& sizes, std::uint64_t stream, Dtype t) {
  const Tensor x = cast(random_tensor({sizes[0], sizes[2], sizes[1], sizes[3]}, stream), t);
  return transpose(x, 1, 2);
}

Tensor attend_in_pieces(const Tensor& q, const Tensor& k, const Tensor& v, const Pieces& pieces) {
  nn::KvCache cache;
  std::vector<Tensor> y;
  std::int64_t at = 0;
  for (const std::int64_t n : pieces) {
    const auto part = [&](const Tensor& x) { return x.slice(2, at, at + n); };
    CHECK(cache[0].length() == at);
    y.push_back(nn::causal_attention(part(q), part(k), part(v), cache[0]));
    at += n;
  }
  return cat(y, 2);
}

struct Block {  // grouped heads and rotary positions
  explicit Block(std::int64_t width)
      : norm1(width, {.autocast_output = true}), query(width, width), key(width, width / 2), value(width, width / 2),
        out(width, width), norm2(width), up(width, 2 * width, Activation::gelu_tanh), down(2 * width, width) {}
  nn::LayerNorm norm1;
  nn::Linear query, key, value, out;
  nn::LayerNorm norm2;
  nn::LinearAct up;
  nn::Linear down;
  MANTISSA_FIELDS(norm1, query, key, value, out, norm2, up, down)

  Tensor attend(const Tensor& x, const nn::LayerCache& past) const {
    const auto heads = [](const Tensor& y) { return y.reshape({y.size(0), y.size(1), -1, 16}).transpose(1, 2); };
    const Tensor q = rotary_embedding(heads(query(x)), past.length()),
                 k = rotary_embedding(heads(key(x)), past.length());
    return out(flatten(nn::causal_attention(q, k, heads(value(x)), past).transpose(1, 2), 2));
  }
  Tensor operator()(const Tensor& x, const nn::LayerCache& past) const {
    const auto [sum, y] = norm2(x, attend(norm1(x), past));
    return sum + nn::feed_forward(up, down, y);
  }
};
struct Net {
  Net() {
    for (int i = 0; i < 2; ++i) blocks.emplace_back(64);
  }
  nn::Embedding token{50, 64};
  std::vector<Block> blocks;
  nn::LayerNorm norm{64};
  nn::Linear head{64, 50};
  MANTISSA_FIELDS(token, blocks, norm, head)
  Tensor operator()(const Tensor& tokens, const nn::KvCache& cache = nn::no_cache) const {
    Tensor x = token(tokens);
    for (std::size_t i = 0; i < blocks.size(); ++i) x = blocks[i](x, cache[i]);
    return head(norm(x));
  }
};
Tensor some_tokens(const Dims& sizes) { return cast(random_tensor(sizes, 3, 0, 50), i64); }

Tensor in_pieces(const Net& net, const Tensor& tokens, const Pieces& pieces) {
  const nn::KvCache cache;
  std::vector<Tensor> logits;
  for (std::int64_t at = 0; const std::int64_t n : pieces) {
    logits.push_back(net(tokens.slice(1, at, at + n), cache));
    at += n;
    CHECK(cache.length() == at);
  }
  return cat(logits, 1);
}

}  // namespace

TEST_CASE("Through a window a token sees itself and those before it, whatever the pieces") {
  const NoGrad no_grad;
  const std::int64_t length = 30;
  const Tensor q = heads_of({2, 4, length, 8}, 1, f64), k = heads_of({2, 2, length, 8}, 2, f64),
               v = heads_of({2, 2, length, 8}, 3, f64);
  const Tensor at = arange(length), distance = at.unsqueeze(1) - at;
  for (const std::int64_t window : {1, 2, 7, 29, 30, 31}) {
    const Tensor mask = logical_and(distance >= 0, distance < window);
    const Tensor expected = scaled_dot_product_attention(q, k, v, mask, {.enable_gqa = true});
    CHECK(amax(abs(nn::causal_attention(q, k, v, {}, {}, window) - expected)).item<double>() < 1e-12);
    for (const Pieces& pieces : {Pieces(30, 1), {30}, {7, 1, 1, 7, 14}, {3, 20, 7}, {1, 29}}) {
      INFO("window " << window << ", first piece " << pieces[0]);
      const nn::KvCache cache;
      std::vector<Tensor> parts;
      for (const std::int64_t n : pieces) {
        const std::int64_t begin = cache.length();
        const auto part = [&](const Tensor& x) { return x.slice(2, begin, begin + n); };
        parts.push_back(nn::causal_attention(part(q), part(k), part(v), cache[0], {}, window));
      }
      CHECK(amax(abs(cat(parts, 2) - expected)).item<double>() < 1e-12);
    }
  }
  CHECK_THAT(message_of([&] { (void)nn::causal_attention(q, k, v, {}, {}, -1); }), Contains("must not be negative"));
}

TEST_CASE("causal attention with a cache is that over the whole, on every instruction set") {
  const NoGrad no_grad;
  const cpu_backend::Isa before = cpu_backend::isa();
  const Dims q{2, 4, 70, 24}, k{2, 2, 70, 24}, v{2, 2, 70, 40};
  for (const Dtype t : {f64, f32, f16, bf16}) {
    const Tensor query = heads_of(q, 0, t), key = heads_of(k, 1, t), value = heads_of(v, 2, t);
    const auto wide = [](const Tensor& x) { return repeat_interleave(cast(x, f64), x.size(1) == 4 ? 1 : 2, 1); };
    const Tensor expected = scaled_dot_product_attention(wide(query), wide(key), wide(value), {}, {.is_causal = true});
    for (const auto isa : {cpu_backend::Isa::baseline, cpu_backend::Isa::avx2, cpu_backend::Isa::avx512}) {
      if (isa > cpu_backend::best_isa()) continue;
      cpu_backend::set_isa(isa);
      for (const Pieces& pieces :
           {Pieces{70}, one_by_one, Pieces{5, 1, 1, 3, 60}, Pieces{1, 69}, Pieces{64, 1, 1, 4}}) {
        INFO(cpu_backend::name_of(isa) << " " << name_of(t) << ", " << pieces.size() << " pieces");
        CHECK(difference(attend_in_pieces(query, key, value, pieces), expected, tolerance_for(t, 70 + 24)) == "");
      }
    }
    cpu_backend::set_isa(before);
  }
}

TEST_CASE("a model with a cache gives the logits of the whole context") {
  const NoGrad no_grad;
  manual_seed(1);
  Net net;
  const Tensor tokens = some_tokens({3, 70});
  const Tensor whole = net(tokens);
  const Tensor half_whole = amp::autocast(bf16, [&] { return net(tokens); });
  const Pieces patterns[] = {one_by_one, {7, 1, 1, 1, 30, 30}};
  std::vector<Tensor> pieces, half_pieces;
  for (const Pieces& p : patterns) {
    pieces.push_back(in_pieces(net, tokens, p));
    half_pieces.push_back(amp::autocast(bf16, [&] { return in_pieces(net, tokens, p); }));
  }
  nn::to(net, f64);
  const Tensor exact = net(tokens);
  const double largest = amax(abs(exact)).item<double>();
  const Tolerance tolerance = tolerance_for(f32, 128, largest);  // the longest sum
  CHECK(difference(whole, exact, tolerance) == "");
  const auto error = [&](const Tensor& x) { return amax(abs(cast(x, f64) - exact)).item<double>(); };
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    CHECK(difference(pieces[i], exact, tolerance) == "");
    CHECK(half_pieces[i].dtype() == bf16);
    CHECK(error(half_pieces[i]) <= 1.5 * error(half_whole));
    CHECK(error(half_whole) <= 0.02 * largest);
  }
}

TEST_CASE("a cache can be cut, cleared, and go on with some of the texts") {
  const NoGrad no_grad;
  manual_seed(1);
  Net net;
  const Tensor tokens = some_tokens({3, 12});
  nn::KvCache cache;
  net(tokens, cache);
  CHECK(cache.length() == 12);
  CHECK(cache.nbytes() == 2 * 2 * 3 * 2 * 64 * 16 * 4);  // layers, keys and values, texts, heads, room, width, f32
  cache.truncate(5);
  CHECK(cache.length() == 5);
  const nn::KvCache same = cache;  // a handle
  const Tensor rest = net(tokens.slice(1, 5), same);
  CHECK(all_close(rest, cast(net(tokens).slice(1, 5), f64), tolerance_for(f32, 128, 10)));
  CHECK(cache.length() == 12);
  const Tensor index = tensor({2, 0});
  cache.truncate(11);
  cache.select(index);
  const Tensor last = net(index_select(tokens, 0, index).slice(1, 11), cache);
  CHECK(all_close(last, cast(index_select(rest.slice(1, 6), 0, index), f64), tolerance_for(f32, 128, 10)));
  CHECK_THAT(message_of([&] { net(tokens.slice(1, 0, 1), cache); }), Contains("KvCache: holds keys"));
  cache.clear();
  CHECK(cache.length() == 0);
  const auto attend = [&](const Dims& q, const Dims& k) {
    return message_of([&] { nn::causal_attention(zeros(q), zeros(k), zeros(k), cache[0]); });
  };
  CHECK_THAT(attend({4}, {4}), Contains("causal_attention: query and key must be [..., T, D]"));
  CHECK_THAT(attend({1, 3, 5, 4}, {1, 2, 5, 4}), Contains("no multiple of those of key"));
  CHECK_THAT(attend({1, 2, 5, 4}, {1, 2, 4, 4}), Contains("must be of the same tokens"));
  CHECK(cache.length() == 0);  // what is refused is not remembered
  net(tokens.slice(0, 0, 1), cache);  // another number of texts
  CHECK(nn::no_cache.length() == 0);
  nn::no_cache.clear();
}

TEST_CASE("a cache refuses what wants a gradient") {
  Net net;
  const nn::KvCache cache;
  CHECK_THAT(message_of([&] { net(some_tokens({1, 2}), cache); }), Contains("under NoGrad"));
}

TEST_CASE("a token is drawn from the likeliest") {
  manual_seed(3);
  const Tensor logits = log(tensor({{0.5, 0.3, 0.15, 0.05}, {0.05, 0.15, 0.3, 0.5}}));
  CHECK(nn::sample(logits, {.temperature = 0}).to_vector<int>() == std::vector<int>{0, 3});
  const auto drawn = [&](const nn::SampleOptions& o) {  // how often each token of the first row
    const Tensor many = expand(logits.slice(0, 0, 1), {4000, 4});
    return cast(one_hot(nn::sample(many, o), 4), f32).mean({0}).to_vector<float>();
  };
  const auto is = [](const std::vector<float>& got, const std::vector<float>& expected) {
    return std::ranges::equal(got, expected,
                              [](float a, float b) { return b == 0 ? a == 0 : std::abs(a - b) < 0.03f; });
  };
  CHECK(is(drawn({}), {0.5f, 0.3f, 0.15f, 0.05f}));
  CHECK(is(drawn({.top_k = 2}), {0.625f, 0.375f, 0, 0}));
  CHECK(is(drawn({.top_k = 1}), {1, 0, 0, 0}));
  CHECK(is(drawn({.top_k = 9}), {0.5f, 0.3f, 0.15f, 0.05f}));
  CHECK(is(drawn({.top_p = 0.7}), {0.625f, 0.375f, 0, 0}));
  CHECK(is(drawn({.top_p = 0.01}), {1, 0, 0, 0}));
  CHECK(is(drawn({.top_k = 3, .top_p = 0.5}), {1, 0, 0, 0}));  // 0.526 of what three have
  CHECK(is(drawn({.min_p = 0.2}), {0.5263f, 0.3158f, 0.1579f, 0}));
  CHECK(is(drawn({.min_p = 1}), {1, 0, 0, 0}));
  CHECK(is(drawn({.temperature = 0.5, .min_p = 0.2}), {0.7353f, 0.2647f, 0, 0}));
  CHECK(is(drawn({.top_p = 0.96, .min_p = 0.2}), {0.5263f, 0.3158f, 0.1579f, 0}));  // 0.8 would be two of these three
  CHECK(is(drawn({.top_p = 0.7, .min_p = 0.2}), {0.625f, 0.375f, 0, 0}));
  CHECK(is(drawn({.top_k = 3, .min_p = 0.5}), {0.625f, 0.375f, 0, 0}));
  CHECK(is(drawn({.top_k = 3, .top_p = 0.99, .min_p = 0.5}), {0.625f, 0.375f, 0, 0}));
  const Tensor flat = zeros({1, 5000});                        // the likeliest thousand have too little
  CHECK(nn::sample(flat, {.top_p = 0.9}).item<int>() < 5000);
  CHECK(nn::sample(one_hot(tensor({4321}), 5000) * 20.0, {.top_p = 0.9}).item<int>() == 4321);
  CHECK(is(drawn({.temperature = 0.5}), {0.6849f, 0.2466f, 0.0616f, 0.0068f}));
  CHECK(nn::sample(logits[0]).sizes() == Dims{});
  CHECK(nn::sample(cast(logits, bf16), {.top_k = 2}).dtype() == i64);
  CHECK_THAT(message_of([&] { nn::sample(logits, {.temperature = -1}); }), Contains("must not be negative"));
  CHECK_THAT(message_of([&] { nn::sample(zeros({2, 0})); }), Contains("[..., V]"));
}

// By inverting the cumulative distribution, in f64: noise in f32 on the logits would undersample tokens with
// probabilities below 2^-24.
TEST_CASE("unlikely tokens are drawn as often as they should be") {
  MANTISSA_PRINT_SEED();
  constexpr std::int64_t tokens = 50001, rows = 400;
  const double unlikely = 0.05;  // of the tokens but the first, together
  Tensor logits = full({tokens}, std::log(unlikely / (tokens - 1)));
  logits.data<float>()[0] = static_cast<float>(std::log(1 - unlikely));
  manual_seed(test::seed());
  const std::vector<double> u = rand({rows, 1}, {.dtype = f64}).to_vector<double>();
  manual_seed(test::seed());
  const std::vector<std::int64_t> drawn = nn::sample(expand(logits, {rows, tokens})).to_vector<std::int64_t>();
  for (std::size_t i = 0; i < u.size(); ++i) {  // each token has its part of [0, 1), the first one the first
    const double token = u[i] < 1 - unlikely ? 0 : (u[i] - (1 - unlikely)) / unlikely * (tokens - 1);
    INFO("row " << i << ", " << u[i]);
    CHECK(std::abs(static_cast<double>(drawn[i]) - token) <= 2);
  }
}

TEST_CASE("a token is drawn at any temperature, and from anything but NaN") {
  const Tensor logits = tensor({1.0, 3.0, 2.0});
  for (const double temperature : {1e-3, 1e-30, 1e-44, 1e-300})
    CHECK(nn::sample(logits, {.temperature = temperature}).item<int>() == 1);
  const Tensor hot = nn::sample(expand(logits, {3000, 3}), {.temperature = 1e300});
  for (const float share : cast(one_hot(hot, 3), f32).mean({0}).to_vector<float>())
    CHECK(std::abs(share - 1 / 3.0f) < 0.05f);
  const Tensor one_possible = tensor({-INFINITY, -INFINITY, 2.0});
  for (const nn::SampleOptions& o : {nn::SampleOptions{}, {.top_k = 2}, {.top_p = 0.9}, {.top_k = 2, .top_p = 0.9}}) {
    CHECK(nn::sample(one_possible, o).item<int>() == 2);
    for (const Tensor& bad : {tensor({1.0, NAN, 2.0}), tensor({1.0, INFINITY}), full({3}, -INFINITY)})
      CHECK_THAT(message_of([&] { nn::sample(bad, o); }), Contains("have NaN or infinity"));
    CHECK(nn::sample(zeros({0, 3}), o).sizes() == Dims{0});
  }
  for (const nn::SampleOptions& o : {nn::SampleOptions{.temperature = NAN}, {.top_p = NAN}, {.top_p = 0}, {.top_k = -1},
                                     {.min_p = 1.5}, {.min_p = NAN}})
    CHECK_THAT(message_of([&] { nn::sample(logits, o); }), Contains("sample: temperature and top_k must not be"));
}

TEST_CASE("what is written with a cache is what is written without") {
  manual_seed(1);
  Net net;
  const Tensor prompt = some_tokens({2, 4});
  const auto with = [&](const Tensor& t, const nn::KvCache& cache) { return net(t, cache); };
  for (const double temperature : {0.0, 1.0}) {
    manual_seed(5);
    const Tensor got = nn::generate(with, prompt, {.max_new_tokens = 30, .sample = {.temperature = temperature}});
    manual_seed(5);
    CHECK(same_bits(got, nn::generate(net, prompt, {.max_new_tokens = 30, .sample = {.temperature = temperature}})));
    manual_seed(5);
    Tensor text = prompt;
    const NoGrad no_grad;
    for (int i = 0; i < 30; ++i)
      text = cat({text, nn::sample(net(text).select(1, -1), {.temperature = temperature}).unsqueeze(1)}, 1);
    CHECK(same_bits(got, text));
  }
}

TEST_CASE("logits are replaced by what a function makes of them and of the texts") {
  const Tensor texts = tensor({{1, 2, 1}, {0, 3, 3}}), logits = tensor({{1.0, 2.0, -2.0, 4.0}, {-1.0, 0.5, 3.0, 8.0}});
  CHECK(equal(nn::penalize_repetitions(texts, logits, 2), tensor({{1.0, 1.0, -4.0, 4.0}, {-2.0, 0.5, 3.0, 4.0}})));
  CHECK_THROWS_WITH(nn::penalize_repetitions(texts, logits, 0), Contains("must be positive"));
  CHECK_THROWS_WITH(nn::penalize_repetitions(texts, logits[0], 1), Contains("needs texts"));
  const auto always = [](const Tensor& t, const nn::KvCache&) {  // the same token, unless it is discouraged
    return expand(tensor({0.5, 3.0, 2.0, 1.0}), {t.size(0), t.size(1), 4});
  };
  nn::GenerateOptions o{.max_new_tokens = 3, .sample = {.temperature = 0}};
  CHECK(equal(nn::generate(always, tensor({{0}}), o), tensor({{0, 1, 1, 1}})));
  o.logits_processor = [](const Tensor& t, const Tensor& l) { return nn::penalize_repetitions(t, l, 4); };
  CHECK(equal(nn::generate(always, tensor({{0}}), o), tensor({{0, 1, 2, 3}})));
  o.logits_processor = [](const Tensor&, const Tensor& l) { return l[0]; };
  CHECK_THROWS_WITH(nn::generate(always, tensor({{0}}), o), Contains("logits_processor must give logits [1, 4]"));
}

TEST_CASE("writing goes on beyond the context, and ends where it is told to") {
  manual_seed(1);
  Net net;
  std::vector<std::int64_t> seen;
  const auto model = [&](const Tensor& t, const nn::KvCache& cache) {
    const Tensor logits = net(t, cache);
    seen.push_back(cache.length());
    return logits;
  };
  const Tensor text = nn::generate(model, some_tokens({2, 5}), {.max_new_tokens = 10, .context = 8});
  CHECK(text.sizes() == Dims{2, 15});
  CHECK(seen == std::vector<std::int64_t>{5, 6, 7, 8, 4, 5, 6, 7, 8, 4});
  seen.clear();
  nn::generate(model, some_tokens({1, 20}), {.max_new_tokens = 2, .context = 8});  // a prompt longer than the context
  CHECK(seen == std::vector<std::int64_t>{8, 4});

  int calls = 0;
  const auto three = [&](const Tensor& t) { return t.sizes() == Dims{2} && ++calls < 3; };
  CHECK(nn::generate(model, some_tokens({2, 5}), {.max_new_tokens = 10, .on_token = three}).sizes() == Dims{2, 8});

  // The first sequence ends at once, the second three tokens later.
  int step = 0;
  const auto script = [&](const Tensor& t, const nn::KvCache&) {
    const Tensor next = step++ == 0 ? tensor({7, 1}) : step < 4 ? tensor({5, 2}) : tensor({5, 7});
    return cast(one_hot(next, 50), f32).unsqueeze(1) * 1e4 + zeros({t.size(0), 1, 50});
  };
  const Tensor ended = nn::generate(script, some_tokens({2, 1}), {.max_new_tokens = 9, .eos = 7});
  CHECK(ended.slice(1, 1).to_vector<int>() == std::vector<int>{7, 7, 7, 7, 1, 2, 2, 7});
  CHECK_THAT(message_of([&] { nn::generate(model, tensor({1, 2})); }), Contains("[N, T]"));
  CHECK_THAT(message_of([&] {
               nn::generate(model, some_tokens({1, 2}), {.max_new_tokens = -1});
             }),
             Contains("negative, got -1"));
  CHECK_THAT(message_of([&] { nn::generate(model, some_tokens({1, 2}), {.eos = -3}); }), Contains("negative, got -3"));
  CHECK_THAT(message_of([&] { nn::generate({}, some_tokens({1, 2})); }), Contains("no model"));
}
