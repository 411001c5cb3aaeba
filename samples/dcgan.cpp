// A generator of clothing images and a discriminator between real and generated ones (DCGAN, Radford et al., 2015): two
// networks, two optimizers, one scaler.
//   dcgan                         Fashion-MNIST from Debian's package; writes images to dcgan.png after each epoch
//   dcgan --help
#include "common/pictures.h"

using namespace mantissa;

struct GeneratorNet {  // noise [N, 64] -> images [N, 1, 28, 28] in [-1, 1]
  explicit GeneratorNet(std::int64_t width)
      : start(64, 2 * width * 7 * 7, {.bias = false}), norm1(2 * width),
        up1(2 * width, width, 4, {.stride = 2, .padding = 1, .bias = false}), norm2(width),
        up2(width, 1, 4, {.stride = 2, .padding = 1}) {}
  nn::Linear start;
  nn::BatchNorm2d norm1;
  nn::ConvTranspose2d up1;
  nn::BatchNorm2d norm2;
  nn::ConvTranspose2d up2;
  MANTISSA_FIELDS(start, norm1, up1, norm2, up2)

  Tensor operator()(const Tensor& noise) const {
    const Tensor x = relu(norm1(start(noise).reshape({noise.size(0), -1, 7, 7})));
    return tanh(up2(relu(norm2(up1(x)))));  // 7 x 7, 14 x 14, 28 x 28
  }
};

struct DiscriminatorNet {  // images -> logits [N], positive for real ones
  explicit DiscriminatorNet(std::int64_t width)
      : down1(1, width, 4, {.stride = 2, .padding = 1}),
        down2(width, 2 * width, 4, {.stride = 2, .padding = 1, .bias = false}), norm(2 * width),
        out(2 * width * 7 * 7, 1) {}
  nn::Conv2d down1, down2;
  nn::BatchNorm2d norm;
  nn::Linear out;
  MANTISSA_FIELDS(down1, down2, norm, out)

  Tensor operator()(const Tensor& picture) const {
    const Tensor x = leaky_relu(norm(down2(leaky_relu(down1(picture), 0.2))), 0.2);
    return out(flatten(x, 1)).squeeze(1);
  }
};

Tensor noise_for(std::int64_t n, Device device) { return randn({n, 64}, {.device = device}); }
// Binary cross entropy against constant labels `target`: 1 real, 0 generated.
Tensor bce_against(const Tensor& logits, double target) {
  return binary_cross_entropy_with_logits(logits, full(logits.sizes(), target, {.device = logits.device()}));
}

int run(int argc, char** argv) {
  samples::Options o{
      .dataset = "fashion", .model = "dcgan", .schedule = "constant", .epochs = 5, .batch = 64, .lr = 4e-4};
  std::string picture = "dcgan.png";
  std::int64_t width = 32;
  samples::configure(argc, argv,
                     {.description = "Learns to draw 28x28 pictures like those of a data set.",
                      .datasets = {"mnist", "fashion", "synthetic"},
                      .flags = {{"--width", &width, "Channels at 14 x 14; twice as many at 7 x 7"},
                                {"--picture", &picture, "PNG file for 64 drawn pictures, written after each epoch"}}},
                     o);
  const data::Dataset set = samples::load_pictures(o);
  data::Loader loader = samples::picture_loader(set, o);

  GeneratorNet generator(width);
  DiscriminatorNet discriminator(width);
  for (const Tensor& p : nn::parameters(generator)) if (p.dim() > 1) nn::init::normal_(p, 0, 0.02);
  for (const Tensor& p : nn::parameters(discriminator)) if (p.dim() > 1) nn::init::normal_(p, 0, 0.02);

  samples::Run run(o, {.steps_per_epoch = loader.batches(), .items_per_step = o.batch, .items = "images"});
  run.keep("loader", loader);
  run.keep("generator", generator);
  run.keep("discriminator", discriminator);
  const Tensor shown = noise_for(64, run.device);
  run.keep("shown", shown);
  optim::Optimizer& optimizer_g = run.optimizer("optim_g", nn::named_parameters(generator));
  optim::Optimizer& optimizer_d = run.optimizer("optim_d", nn::named_parameters(discriminator));
  for (optim::Optimizer* optimizer : {&optimizer_g, &optimizer_d})
    if (optimizer->has("beta1")) optimizer->set("beta1", 0.5);
  run.evaluate([&] {
    const NoGrad no_grad;
    nn::eval(generator);
    samples::save_pictures(run, picture, amp::autocast(run.dtype, [&] { return generator(shown); }), 8);
    nn::train(generator);
    return samples::Values{};
  });
  run.onnx(generator, {reshape(linspace(-1, 1, 128), {2, 64})}, {.input_names = {"noise"}, .output_names = {"picture"}},
           [&](const Tensor& x) { return generator(x); });
  run.start(set.source, nn::count(generator) + nn::count(discriminator));
  data::Batch batch;
  while (run.next()) {
    while (!loader.next(batch)) {}  // next() returns false once per epoch
    const Tensor drawn = amp::autocast(run.dtype, [&] { return generator(noise_for(o.batch, run.device)); });

    optimizer_d.zero_grad();
    const Tensor loss_d = amp::autocast(run.dtype, [&] {
      return bce_against(discriminator(batch.image.to(run.device)), 1) + bce_against(discriminator(drawn.detach()), 0);
    });
    backward(run.scaler.scale(loss_d));
    run.scaler.step(optimizer_d);

    optimizer_g.zero_grad();
    const Tensor loss_g = amp::autocast(run.dtype, [&] { return bce_against(discriminator(drawn), 1); });
    backward(run.scaler.scale(loss_g));
    run.scaler.step(optimizer_g);

    run.scaler.update();  // once, after both steps
    run.done({{"discriminator_loss", loss_d}, {"generator_loss", loss_g}});
  }
  return run.finish();
}

int main(int argc, char** argv) { return samples::run_guarded(run, argc, argv); }
