// Draws pictures of a wanted class by removing noise step by step: a diffusion model in the form of flow matching
// (Lipman et al., 2023; Liu et al., 2023) with a small U-Net (Ho et al., 2020), classifier-free guidance (Ho and
// Salimans, 2022) and an average of the weights.
//   diffusion                     Fashion-MNIST from Debian's package; draws into diffusion.png after each epoch
//   diffusion --help
#include "common/pictures.h"

using namespace mantissa;

struct Residual {  // x [N, in, H, W], about [N, width] (time and class) -> [N, out, H, W]
  Residual(std::int64_t in, std::int64_t out, std::int64_t width)
      : norm1(8, in), conv1(in, out, 3, {.padding = 1}), shift(width, out), norm2(8, out),
        conv2(out, out, 3, {.padding = 1}), shortcut(in, out, 1) {}
  nn::GroupNorm norm1;
  nn::Conv2d conv1;
  nn::Linear shift;
  nn::GroupNorm norm2;
  nn::Conv2d conv2, shortcut;
  MANTISSA_FIELDS(norm1, conv1, shift, norm2, conv2, shortcut)

  Tensor operator()(const Tensor& x, const Tensor& about) const {
    const Tensor h = conv1(silu(norm1(x))) + unflatten(shift(about), 1, {-1, 1, 1});
    return shortcut(x) + conv2(silu(norm2(h)));
  }
};

struct PixelAttention {  // every pixel of [N, C, H, W] looks at all the others
  explicit PixelAttention(std::int64_t channels)
      : norm(8, channels), query_key_value(channels, 3 * channels, 1), out(channels, channels, 1) {}
  nn::GroupNorm norm;
  nn::Conv2d query_key_value, out;
  MANTISSA_FIELDS(norm, query_key_value, out)

  Tensor operator()(const Tensor& x) const {
    const Tensor pixels = flatten(query_key_value(norm(x)), 2).transpose(1, 2).unsqueeze(1);
    const auto [q, k, v] = pixels.chunk<3>(-1);  // [N, 1, HW, C]
    const Tensor y = scaled_dot_product_attention(q, k, v).squeeze(1).transpose(1, 2);
    return x + out(y.reshape(x.sizes()));
  }
};

// Times in [0, 1] as sines and cosines of 16 frequencies: [N] -> [N, 32].
Tensor waves(const Tensor& time) {
  const Tensor angles = time.unsqueeze(1) * logspace(0, 3, 16, 10, {.device = time.device()});
  return cat({sin(angles), cos(angles)}, 1);
}

// The velocity noise - picture at `time`, of x = (1 - time) * picture + time * noise.
struct UNet {
  UNet(std::int64_t width, std::int64_t classes)
      : time1(32, 4 * width), time2(4 * width, 4 * width), label(classes + 1, 4 * width),
        start(1, width, 3, {.padding = 1}), down28(width, width, 4 * width), down14(width, 2 * width, 4 * width),
        down7(2 * width, 2 * width, 4 * width), attention(2 * width), middle(2 * width, 2 * width, 4 * width),
        up14(4 * width, 2 * width, 4 * width), up28(3 * width, width, 4 * width), norm(8, width),
        out(width, 1, 3, {.padding = 1}) {
    nn::init::zeros_(out.weight);
  }
  nn::Linear time1, time2;
  nn::Embedding label;  // the last one: no class is asked for
  nn::Conv2d start;
  Residual down28, down14, down7;
  PixelAttention attention;
  Residual middle, up14, up28;
  nn::GroupNorm norm;
  nn::Conv2d out;
  MANTISSA_FIELDS(time1, time2, label, start, down28, down14, down7, attention, middle, up14, up28, norm, out)

  Tensor operator()(const Tensor& x, const Tensor& time, const Tensor& wanted) const {
    const Tensor about = silu(time2(silu(time1(waves(time)))) + label(wanted));
    const Tensor at28 = down28(start(x), about);
    const Tensor at14 = down14(avg_pool2d(at28, 2), about);
    const Tensor at7 = middle(attention(down7(avg_pool2d(at14, 2), about)), about);
    const Tensor up = up14(cat({interpolate(at7, {.scale_factor = {2}}), at14}, 1), about);
    return out(silu(norm(up28(cat({interpolate(up, {.scale_factor = {2}}), at28}, 1), about))));
  }
};

// Pictures of the wanted classes, from noise at time 1 to time 0 in `steps` equal steps. Each velocity is driven away
// from the one for no class in particular, `nothing`.
Tensor draw(const UNet& net, const Tensor& noise, const Tensor& wanted, std::int64_t nothing, std::int64_t steps,
            double guidance) {
  const NoGrad no_grad;
  const Tensor both = cat({wanted, full_like(wanted, static_cast<double>(nothing))});
  Tensor x = noise;
  for (std::int64_t k = 0; k < steps; ++k) {
    const Tensor time = full({both.size(0)}, 1 - double(k) / double(steps), {.device = x.device()});
    const auto [towards_wanted, towards_any] = net(cat({x, x}), time, both).to(f32).chunk<2>();
    x = x - lerp(towards_any, towards_wanted, guidance) / double(steps);
  }
  return x;
}

int run(int argc, char** argv) {
  samples::Options o{.dataset = "fashion", .model = "diffusion", .epochs = 5, .batch = 64, .lr = 2e-3};
  std::string picture = "diffusion.png";
  std::int64_t width = 32, steps = 25;
  double decay = 0.995, guidance = 2;
  samples::configure(argc, argv,
                     {.description = "Learns to draw 28x28 pictures of each class of a data set.",
                      .datasets = {"mnist", "fashion", "synthetic"},
                      .flags = {{"--width", &width, "Channels at 28 x 28, a multiple of 8; twice as many below"},
                                {"--steps", &steps, "Steps from noise to picture"},
                                {"--guidance", &guidance, "Emphasis on the class; 1: none"},
                                {"--decay", &decay, "Of the average of the weights, which draws; below 1"},
                                {"--picture", &picture, "PNG file for drawn pictures, written after each epoch"}}},
                     o);
  const data::Dataset set = samples::load_pictures(o);
  data::Loader loader = samples::picture_loader(set, o);

  UNet net(width, set.classes);
  samples::Run run(o, {.steps_per_epoch = loader.batches(), .items_per_step = o.batch, .items = "images"});
  run.keep("loader", loader);
  run.keep("net", net);
  optim::Ema average(nn::parameters(net), {.decay = decay});
  run.keep("average", average);
  const Tensor wanted = arange(set.classes, {.device = run.device}).repeat(8);  // a column for each class
  const Tensor shown = randn({wanted.size(0), 1, 28, 28}, {.device = run.device});
  run.keep("shown", shown);
  optim::Optimizer& optimizer = run.optimizer("optim", nn::named_parameters(net));
  run.evaluate([&] {
    const auto averaged = average.applied();
    const Tensor drawn =
        amp::autocast(run.dtype, [&] { return draw(net, shown, wanted, set.classes, steps, guidance); });
    samples::save_pictures(run, picture, drawn, set.classes);
    return samples::Values{};
  });
  run.onnx(net, {shown.slice(0, 0, 2), tensor({0.25, 0.75}), tensor({0, 1})},
           {.input_names = {"x", "time", "label"}, .output_names = {"velocity"}}, std::ref(net));
  run.start(set.source, nn::count(net));
  data::Batch batch;
  while (run.next()) {
    while (!loader.next(batch)) {}  // next() returns false once per epoch
    const Tensor image = batch.image.to(run.device), noise = randn_like(image);
    const Tensor time = sigmoid(randn({o.batch}, {.device = run.device}));  // seldom near 0 and 1 (Esser et al., 2024)
    const Tensor forgotten = rand({o.batch}, {.device = run.device}) < 0.1;
    const Tensor label = masked_fill(batch.label.to(run.device), forgotten, set.classes);
    optimizer.zero_grad();
    const Tensor loss = amp::autocast(run.dtype, [&] {
      return mse_loss(net(lerp(image, noise, time.reshape({-1, 1, 1, 1})), time, label), noise - image);
    });
    backward(run.scaler.scale(loss));
    average.update(run.scaler.step(optimizer));
    run.scaler.update();
    run.done({{"loss", loss}});
  }
  const auto averaged = average.applied();  // what --onnx exports
  return run.finish();
}

int main(int argc, char** argv) { return samples::run_guarded(run, argc, argv); }
