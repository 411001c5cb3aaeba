// Layers and losses for sequences of different lengths: numbers from PyTorch 2 on inputs made by a formula, properties,
// and errors.
#include <cmath>

#include "autograd/backward.h"
#include "nn/activation.h"
#include "nn/clone.h"
#include "nn/loss.h"
#include "nn/rnn.h"
#include "nn/transformer.h"
#include "tests/catch_compat.h"
#include "tests/formula_inputs.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

#define CHECK_REFUSED(expression, text) CHECK_THROWS_WITH(expression, Catch::Matchers::Contains(text))

TEST_CASE("the CTC loss") {
  const Tensor logits = ramp({6, 3, 4}), x = log_softmax(logits, 2),
               targets = tensor({{1, 2, 2}, {3, 1, 0}, {2, 2, 2}});
  const Tensor steps = tensor({6, 5, 4}), lengths = tensor({3, 2, 3});
  check_golden(ctc_loss(x, targets, steps, lengths, {.reduction = Reduction::none}),
               {6.206817554542, 1.894031049788, INFINITY});
  check_golden(ctc_loss(x, targets, steps, lengths), {INFINITY});
  check_golden(nn::CTCLoss{{.reduction = Reduction::sum}}(x, targets, steps, lengths), {INFINITY});
  check_golden(ctc_loss(x, targets, steps, lengths, {.reduction = Reduction::none, .zero_infinity = true}),
               {6.206817554542, 1.894031049788, 0});
  check_golden(ctc_loss(x, tensor({1, 2, 3, 3, 1, 0}), steps, tensor({2, 1, 3}), {.blank = 2}), {3.108859191101});
  check_golden(ctc_loss(log_softmax(select(logits, 1, 0), 1), tensor({1, 2}), scalar(6, {.dtype = i64}),
                        scalar(2, {.dtype = i64})),
               {2.632894678748});
  Tensor leaf = logits.clone().requires_grad_();
  ctc_loss(log_softmax(leaf, 2), targets, steps, lengths, {.zero_infinity = true}).backward();
  check_golden(leaf.grad(),
               {0.003379379729, -0.061446419277, 0.039667133551, 0.018399905998, -0.002453414867, 0.018058282735,
                0.035627336888, -0.051232204756, 0, 0, 0, 0, -0.000183618265, -0.014585192102, -0.016931826251,
                0.031700636619, 0.001254401438, 0.004780846265, 0.028436806818, -0.03447205452, 0, 0, 0, 0,
                -0.01767017502, 0.010180672318, -0.040489631891, 0.047979134593, -0.011103459857, -0.018068655966,
                0.021650474042, 0.007521641782, 0, 0, 0, 0, -0.043132855251, 0.012005314165, -0.028772843078,
                0.059900384164, 0.003161197563, -0.036470277893, 0.017562078143, 0.015747002187, 0, 0, 0, 0,
                -0.042085700795, 0.011981529556, -0.030681135176, 0.060785306414, -0.000668133185, -0.029999676303,
                0.018661031315, 0.012006778174, 0, 0, 0, 0, -0.008359680807, 0.015223824529, -0.054155856485,
                0.047291712763, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK_REFUSED(ctc_loss(x, tensor({1, 2}), steps, lengths), "as long as all target_lengths, 8");
  CHECK_REFUSED(ctc_loss(x, targets, steps, tensor({1.5, 1, 1})), "lengths must be integers");
  CHECK_REFUSED(ctc_loss(x, targets, tensor({7, 5, 4}), lengths),
                "input_lengths: a length of 7 is not between 0 and 6");
}

TEST_CASE("attention with learned and empty keys, projected LSTM, stacks with a final norm") {
  const auto attention =
      filled(nn::MultiheadAttention(4, 2, {.add_bias_kv = true, .add_zero_attn = true, .kdim = 3, .vdim = 2}));
  const auto [y, weights] = attention(ramp({2, 1, 4}), ramp({3, 1, 3}, 4), ramp({3, 1, 2}, 7),
                                      {.key_padding_mask = tensor({{0, 1, 0}}) != 0});
  check_golden(y,
               {0.124589145945, 0.616352629309, 0.205168754707, -0.581515754659, 0.179227930631, 0.530619804954,
                0.262607397498, -0.570871735207});
  check_golden(weights,
               {0.250636824712, 0, 0.249049809622, 0.223957842765, 0.276355522902, 0.161423844578, 0, 0.150619658597,
                0.316274273482, 0.371682223343});
  CHECK(names_of(attention) == Names
               {"q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias", "bias_k", "bias_v",
                "out_proj.weight", "out_proj.bias"});
  const auto [other, none] = attention(ramp({2, 1, 4}), ramp({3, 1, 3}, 4), ramp({3, 1, 2}, 7),
                                       {.key_padding_mask = tensor({{0, 1, 0}}) != 0, .need_weights = false});
  CHECK(all_close(other, y));

  const auto lstm = filled(nn::LSTM(2, 3, {.num_layers = 2, .bidirectional = true, .proj_size = 2}));
  const auto [out, h, c] = lstm(ramp({3, 1, 2}));
  check_golden(out,
               {-0.041786334605, 0.038596153011, -0.083346410178, 0.078048218413, -0.063922511926, 0.059368691624,
                -0.071101328877, 0.066782328589, -0.080992351452, 0.075710106208, -0.048478597807, 0.045439095326});
  check_golden(h,
               {-0.139420016018, 0.135088846987, -0.044009733442, 0.031233363424, -0.080992351452, 0.075710106208,
                -0.083346410178, 0.078048218413});
  check_golden(c,
               {-0.114198833966, -0.051118477954, 0.516061843271, -0.200495508458, 0.371155678388, 0.056676781293,
                -0.178896516357, -0.008056335739, 0.236286734807, -0.210405874639, -0.060143741816, 0.188886684067});
  CHECK(names_of(lstm) == Names
               {"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_hr_l0", "weight_ih_l0_reverse",
                "weight_hh_l0_reverse", "bias_ih_l0_reverse", "bias_hh_l0_reverse", "weight_hr_l0_reverse",
                "weight_ih_l1", "weight_hh_l1", "bias_ih_l1", "bias_hh_l1", "weight_hr_l1", "weight_ih_l1_reverse",
                "weight_hh_l1_reverse", "bias_ih_l1_reverse", "bias_hh_l1_reverse", "weight_hr_l1_reverse"});
  CHECK_REFUSED(nn::GRU(2, 3, {.proj_size = 2}), "proj_size is for LSTM only");
  CHECK_REFUSED(nn::LSTM(2, 3, {.proj_size = 3}), "proj_size must be between 0 and hidden_size");

  const nn::TransformerEncoderLayer layer(
      4, 2, {.dim_feedforward = 3, .dropout = 0, .activation = nn::FeedForward::gelu, .norm_first = true});
  const auto encoder = filled(nn::TransformerEncoder(layer, 2, nn::LayerNorm(4)));
  check_golden(
      encoder(ramp({3, 1, 4}), {.src_mask = nn::Transformer::generate_square_subsequent_mask(3, {.dtype = f64})}),
      {-1.069306864723, 0.449208171893, 0.316351160464, 0.594895082969, -1.142411183612, 0.236067695222, 0.336202707149,
       0.10266524821, -0.579850259955, 0.501156861273, 0.351157726431, 0.795886917993});
  const auto whole = filled(nn::Transformer(4, 2, {1, 1}, {.dim_feedforward = 3, .dropout = 0}));
  check_golden(whole(ramp({3, 1, 4}), ramp({2, 1, 4}, 3),
                     {.tgt_mask = nn::Transformer::generate_square_subsequent_mask(2, {.dtype = f64})}),
               {-0.326981505859, -0.312653792424, -0.56268181011, -0.409346115956, -0.355709761932, -0.332338283173,
                -0.67205019277, -0.365518849522});
  CHECK(names_of(whole) == Names
               {"encoder.layers.0.self_attn.in_proj_weight", "encoder.layers.0.self_attn.in_proj_bias",
                "encoder.layers.0.self_attn.out_proj.weight", "encoder.layers.0.self_attn.out_proj.bias",
                "encoder.layers.0.linear1.weight", "encoder.layers.0.linear1.bias",
                "encoder.layers.0.linear2.weight", "encoder.layers.0.linear2.bias", "encoder.layers.0.norm1.weight",
                "encoder.layers.0.norm1.bias", "encoder.layers.0.norm2.weight", "encoder.layers.0.norm2.bias",
                "encoder.norm.weight", "encoder.norm.bias", "decoder.layers.0.self_attn.in_proj_weight",
                "decoder.layers.0.self_attn.in_proj_bias", "decoder.layers.0.self_attn.out_proj.weight",
                "decoder.layers.0.self_attn.out_proj.bias", "decoder.layers.0.multihead_attn.in_proj_weight",
                "decoder.layers.0.multihead_attn.in_proj_bias", "decoder.layers.0.multihead_attn.out_proj.weight",
                "decoder.layers.0.multihead_attn.out_proj.bias", "decoder.layers.0.linear1.weight",
                "decoder.layers.0.linear1.bias", "decoder.layers.0.linear2.weight", "decoder.layers.0.linear2.bias",
                "decoder.layers.0.norm1.weight", "decoder.layers.0.norm1.bias", "decoder.layers.0.norm2.weight",
                "decoder.layers.0.norm2.bias", "decoder.layers.0.norm3.weight", "decoder.layers.0.norm3.bias",
                "decoder.norm.weight", "decoder.norm.bias"});
  CHECK(all_close(nn::clone(whole)(ramp({3, 1, 4}), ramp({2, 1, 4}, 3)), whole(ramp({3, 1, 4}), ramp({2, 1, 4}, 3))));
}

namespace {

// y, h and c of sequences of different lengths in one call, compared with each sequence separately.
template <class M> void check_lengths(const M& layer, const Dims& x_sizes, const std::vector<std::int64_t>& lengths) {
  const auto parts = [](const auto& r) {
    std::vector<Tensor> t{r.output, r.h};
    if constexpr (requires { r.c; }) t.push_back(r.c);
    return t;
  };
  const bool first = layer.options.batch_first;
  const Tensor x = ramp(x_sizes).requires_grad_();
  const auto all = parts(layer(x, {}, from_data(lengths, {static_cast<std::int64_t>(lengths.size())})));
  CHECK(all[0].size(first ? 1 : 0) == x.size(first ? 1 : 0));
  std::vector<Tensor> together, apart;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto n = static_cast<std::int64_t>(i);
    const Tensor own = x.select(first ? 0 : 1, n), y = all[0].select(first ? 0 : 1, n);
    const auto one = parts(layer(own.slice(0, 0, lengths[i])));  // without a batch
    CHECK(difference(y.slice(0, 0, lengths[i]), one[0], printed) == "");
    CHECK(count_nonzero(y.slice(0, lengths[i])).template item<double>() == 0);
    for (std::size_t k = 1; k < one.size(); ++k) CHECK(difference(all[k].select(1, n), one[k], printed) == "");
    for (std::size_t k = 0; k < one.size(); ++k) {
      together.push_back(square(k == 0 ? y : all[k].select(1, n)).sum());
      apart.push_back(square(one[k]).sum());
    }
  }
  std::vector<Tensor> inputs = nn::parameters(layer);
  inputs.push_back(x);
  const std::vector<Tensor> a{stack(together).sum()}, b{stack(apart).sum()};
  const auto da = grad(a, inputs), db = grad(b, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) CHECK(difference(da[i], db[i], printed) == "");
}

}  // namespace

TEST_CASE("recurrent layers take the lengths of their sequences") {
  check_lengths(filled(nn::LSTM(3, 4, {.num_layers = 2, .batch_first = true, .bidirectional = true})), {5, 6, 3},
                {2, 6, 1, 6, 4});
  // shorter than x
  check_lengths(filled(nn::LSTM(3, 4, {.bidirectional = true, .proj_size = 2})), {5, 3, 3}, {1, 3, 4});
  check_lengths(filled(nn::GRU(2, 3, {.num_layers = 2})), {4, 3, 2}, {4, 4, 4});
  check_lengths(filled(nn::GRU(2, 3, {.bidirectional = true})), {4, 2, 2}, {3, 1});
  check_lengths(filled(nn::RNN(2, 3, {.nonlinearity = nn::Nonlinearity::relu})), {4, 2, 2}, {1, 4});
  const nn::GRU gru = filled(nn::GRU(2, 3));
  const Tensor x = ramp({4, 2, 2});
  CHECK_THAT(message_of([&] {
               gru(x, {}, tensor({1, 5}));
             }),
             Contains("lengths must be between 1 and the 4 steps of f64[4, 2, 2], found 5"));
  CHECK_THAT(message_of([&] { gru(x, {}, tensor({0, 2})); }), Contains("found 0"));
  CHECK_THAT(message_of([&] { gru(x, {}, tensor({1, 2, 3})); }), Contains("lengths must be integers [2]"));
  CHECK_THAT(message_of([&] { gru(ramp({4, 0, 2}), {}, zeros({0}, {.dtype = i64})); }), Contains("holds no sequence"));
}

TEST_CASE("pad_sequence is PyTorch's") {
  const std::vector<Tensor> s{tensor({{1, 2}, {3, 4}}), tensor({{5, 6}})};
  CHECK(equal(nn::pad_sequence(s), tensor({{1, 2}, {5, 6}, {3, 4}, {0, 0}}).reshape({2, 2, 2})));
  CHECK(equal(nn::pad_sequence(s, true, -1), tensor({{1, 2}, {3, 4}, {5, 6}, {-1, -1}}).reshape({2, 2, 2})));
  CHECK_THAT(message_of([] { nn::pad_sequence({}); }), Contains("at least one"));
}

TEST_CASE("attention refuses masks of integers: 1 may mean a token or a gap") {
  const nn::MultiheadAttention attention(4, 2, {.batch_first = true});
  const Tensor x = ramp({2, 3, 4}).to(f32), mask = tensor({{1, 1, 0}, {1, 0, 0}});
  CHECK_THAT(message_of([&] { attention(x, x, x, {.key_padding_mask = mask}); }),
             Contains("key_padding_mask must be bool") && Contains("pass mask == 0"));
  CHECK_THAT(message_of([&] {
               attention(x, x, x, {.attn_mask = zeros({3, 3}, {.dtype = i64})});
             }),
             Contains("attn_mask must be bool"));
  CHECK_THAT(message_of([&] {
               nn::MultiheadAttention(4, 2)(x, zeros({5, 3, 4}), x);
             }),
             Contains("with batch_first as [batch, length, embed]"));
}
