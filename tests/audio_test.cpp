// Spectra and audio: stft and istft (nn/stft.h) and the layers of nn/audio.h. Expected numbers come from torch.stft,
// torch.istft and transformers.audio_utils.mel_filter_bank in f64, on signals made by a formula; the rest are
// definitions.
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "amp/autocast.h"
#include "autograd/backward.h"
#include "autograd/gradcheck.h"
#include "core/ops_special.h"
#include "nn/audio.h"
#include "nn/functions.h"
#include "nn/stft.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

using Values = std::vector<double>;
constexpr Tolerance printed{1e-10, 1e-11};  // the numbers have twelve digits

Tensor signal(std::int64_t count) {
  Tensor x = Tensor::allocate({count}, f64);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto t = static_cast<double>(i);
    x.data<double>()[i] = std::sin(0.7 * t) + std::cos(0.01 * t * t);
  }
  return x;
}
void check_golden(const Tensor& got, const Values& expected) {
  CHECK(difference(flatten(cast(got, f64)), from_data(expected, {static_cast<std::int64_t>(expected.size())}),
                   printed) == "");
}
Tensor hann(std::int64_t n) { return hann_window(n, true, {.dtype = f64}); }
Tensor wave(double frequency, double rate, std::int64_t count) {
  Tensor x = Tensor::allocate({count}, f64);
  for (std::int64_t i = 0; i < count; ++i)
    x.data<double>()[i] = std::sin(2 * std::numbers::pi * frequency * static_cast<double>(i) / rate);
  return x;
}

}  // namespace

TEST_CASE("stft has the numbers of torch.stft", "[audio]") {
  const Tensor s = stft(signal(64), 8, {.hop_length = 3, .window = hann(8)});
  CHECK(s.sizes() == Dims{5, 22, 2});
  check_golden(index_select(s, 1, tensor({0, 5, 21})), {6.33595561732,    0,
                                                        -4.3833609556,    0,
                                                        -0.351448374032,  0,
                                                        -2.59964088701,   0,
                                                        3.05581880399,    -1.74008793304,
                                                        -0.152752992242,  0,
                                                        -0.984649836649,  0,
                                                        -0.814630640988,  0.627240933104,
                                                        -0.214491577829,  0,
                                                        0.599640887011,   0,
                                                        -0.0400800386006, 0.0467431364832,
                                                        0.733579067416,   0,
                                                        -0.366655944019,  0,
                                                        -0.018855293206,  0,
                                                        -0.381220620659,  0});
  const Tensor short_window = hamming_window(6, true, 0.54, 0.46, {.dtype = f64});
  const Tensor odd = stft(
      signal(20), 9, {.hop_length = 4, .win_length = 6, .window = short_window, .center = false, .normalized = true});
  CHECK(odd.sizes() == Dims{5, 3, 2});
  check_golden(odd[{all, 0}], {1.33214803998, 0, -0.735960956572, -0.734124627901, 0.0321458054472, 0.475499149537,
                               0.0596731513267, -0.104658569541, -0.0219320201911, -0.0128709248061});
  const Tensor all_sides =
      stft(signal(20).unsqueeze(0), 5, {.hop_length = 5, .pad_mode = "constant", .onesided = false});
  CHECK(all_sides.sizes() == Dims{1, 5, 4, 2});
  check_golden(all_sides[{0, all, 1}], {3.76370802446, 0, 1.68469658713, -1.67824140738, 1.08135464979, -0.30932480411,
                                        1.08135464979, 0.30932480411, 1.68469658713, 1.67824140738});
}

TEST_CASE("istft has the numbers of torch.istft, for spectra that no signal has", "[audio]") {
  const Tensor factors = linspace(1, 2, 5, {.dtype = f64})[{all, newaxis, newaxis}];
  const Tensor s = stft(signal(64), 8, {.hop_length = 3, .window = hann(8)}) * factors;
  const Tensor y = istft(s, 8, {.hop_length = 3, .window = hann(8)});
  CHECK(y.sizes() == Dims{63});
  check_golden(y[{slice(10, 20)}], {1.40608702813, 1.59886574955, 1.19782350471, 0.252528454823, -0.849433943987,
                                    -1.780405602, -2.12322980059, -1.84404218196, -1.09026356913, -0.18030889431});
  const Tensor longer = istft(s, 8, {.hop_length = 3, .window = hann(8), .length = 70});
  check_golden(longer[{slice(55, 70)}], {1.43323649008, 2.5754208314, 1.63738365946, -0.566708488739, -1.87098714101,
                                         -1.29753217214, 0.0679864510689, 0.374944280023, -0.488096480447,
                                         0.365609836526, -0.117603720466, -1.42932157752, 0, 0, 0});
}

TEST_CASE("istft does not read the second half of a spectrum with all frequencies, as PyTorch's", "[audio]") {
  const StftOptions all_of{.hop_length = 3, .window = hann(9), .onesided = false};
  const IstftOptions back{.hop_length = 3, .window = hann(9), .onesided = false, .length = 50};
  const Tensor s = stft(signal(50), 9, all_of);
  const Tensor changed = s * where(arange(9) < 5, Tensor(1.0), Tensor(3.0)).to(f64)[{all, newaxis, newaxis}];
  CHECK(difference(istft(changed, 9, back), istft(s, 9, back), {1e-12, 1e-12}) == "");
}

TEST_CASE("istft gives back the signal, for every option", "[audio]") {
  const Tensor x = stack({signal(50), wave(3, 50, 50)}).reshape({2, 1, 50});
  for (const std::int64_t n : {8, 9, 16}) {
    for (const bool normalized : {false, true}) {
      for (const bool onesided : {false, true}) {
        CAPTURE(n, normalized, onesided);
        const Tensor s =
            stft(x, n, {.hop_length = 3, .window = hann(n), .normalized = normalized, .onesided = onesided});
        const Tensor y = istft(
            s, n, {.hop_length = 3, .window = hann(n), .normalized = normalized, .onesided = onesided, .length = 50});
        CHECK(difference(y, x, {1e-11, 1e-12}) == "");
      }
    }
  }
}

TEST_CASE("gradients of stft and istft", "[audio]") {
  const auto both = [](const std::vector<Tensor>& in) {
    const Tensor s = stft(in[0], 6, {.hop_length = 2, .window = hann(6)});
    return istft(s * s, 6, {.hop_length = 2, .window = hann(6)});
  };
  gradcheck(both, {signal(13).requires_grad_()});
}

TEST_CASE("stft is f32 in a region of autocast and for halves", "[audio]") {
  const Tensor x = signal(400).to(f32);
  const auto power = [](const Tensor& y) { return stft(y, 64, {.window = hann_window(64)}); };
  const Tensor plain = power(x);
  const amp::Autocast region(f16);
  CHECK(same_bits(power(x), plain));
  CHECK(power(x.to(bf16)).dtype() == f32);
  const nn::MelSpectrogram mel({.sample_rate = 8000, .n_fft = 64, .n_mels = 8});
  CHECK(mel(x).dtype() == f32);
}

TEST_CASE("stft says what is wrong", "[audio]") {
  const Tensor x = signal(64);
  CHECK_THROWS_WITH(stft(x, 200), Contains("64 samples is too short to be reflected"));
  CHECK_THROWS_WITH(stft(x, 200, {.center = false}), Contains("fewer than one frame of n_fft = 200"));
  CHECK_THROWS_WITH(stft(x, 16, {.window = hann(8)}), Contains("window must have shape [16], got f64[8]"));
  CHECK_THROWS_WITH(stft(x, 16, {.win_length = 17}), Contains("win_length 17 is not between 1 and n_fft = 16"));
  CHECK_THROWS_WITH(stft(tensor({1, 2, 3}), 4), Contains("needs a floating tensor"));
  CHECK_THROWS_WITH(istft(x, 16), Contains("needs a spectrum [..., 9, frames, 2]"));
  const Tensor s = stft(x, 8, {.hop_length = 8, .window = hann(8)});
  CHECK_THROWS_WITH(istft(s, 8, {.hop_length = 8, .window = hann(8)}), Contains("no window covers"));
}

TEST_CASE("mel filters: HTK's and Slaney's, with and without equal areas", "[audio]") {
  const auto rows = [](nn::MelFormula formula, bool norm) {
    const Tensor f = nn::mel_filters(
        {.n_mels = 5, .sample_rate = 8000, .f_min = 100, .n_stft = 17, .slaney_norm = norm, .formula = formula});
    return cast(flatten(f[{slice(3, 8), slice(0, 3)}]), f64);
  };
  const Tolerance single{1e-6, 1e-7};
  const auto expect = [&](const Tensor& got, const Values& v) {
    CHECK(difference(got, from_data(v, {15}), single) == "");
  };
  expect(rows(nn::MelFormula::htk, false), {0, 0.986944448039, 0.013055551961, 0, 0.482445845005, 0.517554154995, 0, 0,
                                            0.983582957073, 0, 0, 0.608012009822, 0, 0, 0.23244106257});
  expect(rows(nn::MelFormula::htk, true), {0, 0.002283419136, 2.24864132158e-05, 0, 0.00111619866423, 0.00089141666515,
                                           0, 0, 0.0016940879153, 0, 0, 0.00104721802141, 0, 0, 0.000400348127515});
  expect(rows(nn::MelFormula::slaney, false),
         {0.262226220325, 0.737773779675, 0, 0, 0.628883628286, 0.371116371714, 0, 0.018159111019, 0.981840888981, 0, 0,
          0.590174551539, 0, 0, 0.167790040841});
  expect(rows(nn::MelFormula::slaney, true),
         {0.00070106130773, 0.00188353751581, 0, 0, 0.00160554080341, 0.000741322672178, 0, 4.63602364306e-05,
          0.00196127405566, 0, 0, 0.00117890184574, 0, 0, 0.000335168618044});
  const Tensor defaults = nn::mel_filters({});  // torchaudio's: four filters of 128 are empty
  CHECK(sum(cast(sum(defaults, 0) == 0, i64)).item<int>() == 4);
  CHECK(nn::MelSpectrogram()(randn({1, 1600})).sizes() == Dims{1, 128, 9});
  CHECK(nn::MFCC()(randn({1, 1600})).sizes() == Dims{1, 40, 9});
  const auto at_rate = [](double rate) { return nn::mel_filters({.n_mels = 20, .sample_rate = rate}); };
  CHECK(same_bits(at_rate(11025), at_rate(11024)));
}

TEST_CASE("a spectrogram has its peak at the signal's frequency, and the signal's energy", "[audio]") {
  const nn::Spectrogram power;
  const Tensor x = wave(2000, 16000, 4000).to(f32).unsqueeze(0);
  const Tensor s = power(x);
  CHECK(s.sizes() == Dims{1, 201, 21});
  // 2000 Hz * 400 / 16000; frames at the ends see the signal reflected
  CHECK(same_bits(argmax(s, 1)[{0, slice(2, 19)}].contiguous(), full({17}, 50, {.dtype = i64})));
  const Tensor magnitude = nn::Spectrogram({.power = 1})(x), complex = nn::Spectrogram({.power = {}})(x);
  CHECK(difference(square(magnitude), cast(s, f64), {1e-4, 1e-4}) == "");
  CHECK(complex.sizes() == Dims{1, 201, 21, 2});
  const nn::Spectrogram normalized({.normalized = true});
  CHECK(difference(normalized(x) * sum(square(hann_window(400))), cast(s, f64), {1e-4, 1e-3}) == "");
  // Parseval: with a window of ones that do not overlap
  const nn::Spectrogram plain({.hop_length = 400, .center = false, .onesided = false}, ones({400}));
  CHECK(sum(plain(x)).item() == Approx(400 * sum(square(x)).item()).epsilon(1e-5));
}

TEST_CASE("layers of sound have torchaudio's names in files", "[audio]") {
  nn::MFCC mfcc({.n_mfcc = 13, .mel = {.n_mels = 40}});
  std::vector<std::string> names;
  for (const auto& entry : nn::state_dict(mfcc)) names.push_back(entry.first);
  CHECK(names ==
        std::vector<std::string>{"dct_mat", "MelSpectrogram.spectrogram.window", "MelSpectrogram.mel_scale.fb"});
  const Tensor x = randn({2, 3200});
  const Tensor y = mfcc(x);
  CHECK(y.sizes() == Dims{2, 13, 17});
  CHECK(same_bits(mfcc.clone()(x), y));
  const Tensor gram = matmul(mfcc.dct_mat.t(), mfcc.dct_mat);  // orthonormal
  CHECK(difference(gram, cast(eye(13), f64), {0, 1e-6}) == "");
}

TEST_CASE("decibels, and no further below the largest than top_db", "[audio]") {
  const Tensor x = tensor({{1., 10.}, {1e-3, 0.}});
  CHECK(difference(nn::AmplitudeToDB()(x), tensor({{0., 10.}, {-30., -100.}}, {.dtype = f64}), {1e-6, 1e-5}) == "");
  CHECK(difference(nn::AmplitudeToDB{.magnitudes = true, .top_db = 60}(x),
                   tensor({{0., 20.}, {-40., -40.}}, {.dtype = f64}), {1e-6, 1e-5}) == "");
  const Tensor batch = stack({x, x * 100}).unsqueeze(1);  // each example has its own largest value
  const Tensor y = nn::AmplitudeToDB{.top_db = 60}(batch);
  CHECK(y[{0, 0, 1, 1}].item() == Approx(-50));
  CHECK(y[{1, 0, 1, 1}].item() == Approx(-30));
}

TEST_CASE("SpecAugment masks stripes in training only, of at most the given width", "[audio]") {
  manual_seed(11);
  const Tensor x = ones({40, 2, 12, 30});
  nn::TimeMasking time{.mask_param = 7, .options = {.iid = true}};
  nn::FrequencyMasking frequency{.mask_param = 5};
  CHECK(same_bits(nn::eval(time)(x), x));
  nn::train(time);
  double widest = 0;
  bool differ = false, channels = false;
  const Tensor y = time(x);
  for (std::int64_t n = 0; n < 40; ++n) {
    const Tensor zeros = 1 - y[n];
    CHECK(same_bits(zeros, expand(zeros[{slice(0), slice(0, 1)}], {2, 12, 30}).contiguous()));  // all frequencies alike
    channels = channels || !same_bits(zeros[0], zeros[1]);
    const double width = sum(zeros[{0, 0}]).item();
    CHECK((diff(zeros[{0, 0}]).abs().sum().item() <= 2));  // one stripe
    widest = std::max(widest, width);
    differ = differ || !same_bits(y[n], y[0]);
  }
  CHECK(widest <= 7);
  CHECK(widest >= 4);
  CHECK(differ);
  CHECK(channels);
  const Tensor f = frequency(x);
  CHECK(same_bits(f[0], f[39]));  // not iid
  CHECK(same_bits(nn::TimeMasking{.mask_param = 7, .options = {.p = 0}}(x), x));
  CHECK_THROWS_WITH(time(ones({12, 30})), Contains("[N, ..., F, T]"));
}

TEST_CASE("a resampled sine is the sine of the other rate", "[audio]") {
  for (const auto& [from, to] : {std::pair{16000, 8000}, {8000, 16000}, {44100, 16000}, {16000, 22050}}) {
    CAPTURE(from, to);
    const Tensor x = wave(500, from, 4000);
    const Tensor y = nn::resample(x.reshape({1, 4000}), from, to, {.lowpass_width = 32});
    const std::int64_t count = (4000LL * to + from - 1) / from;
    REQUIRE(y.sizes() == Dims{1, count});
    const Tensor inside = y[{0, slice(200, count - 200)}], expected = wave(500, to, count)[{slice(200, count - 200)}];
    CHECK(amax(abs(inside - expected)).item() < 5e-3);
  }
  const Tensor x = randn({3, 5});
  CHECK(same_bits(nn::resample(x, 7, 7), x));
  CHECK_THROWS_WITH(nn::resample(x, 0, 8000), Contains("rates must be positive"));
}
