// Semantic segmentation: the class of every pixel, by a U-Net (Ronneberger et al., 2015) with batch norm.
//   unet                                       scenes of three overlapping clothes of Fashion-MNIST; bf16
//   unet --dataset folder --data pets --classes 3 --size 128     pets/images/*.jpg, pets/masks/*.png; a tenth tests
//   unet --help
#include "common/pictures.h"
#include "common/scenes.h"

using namespace mantissa;
using data::Pipeline;

struct Twice {  // two 3x3 convolutions, each with batch norm and relu
  Twice(std::int64_t in, std::int64_t out)
      : conv1(in, out, 3, {.padding = 1, .bias = false}), conv2(out, out, 3, {.padding = 1, .bias = false}), bn1(out),
        bn2(out) {}
  nn::Conv2d conv1, conv2;
  nn::BatchNormAct2d bn1, bn2;
  MANTISSA_FIELDS(conv1, conv2, bn1, bn2)

  Tensor operator()(const Tensor& x) const { return bn2(conv2(bn1(conv1(x)))); }
};

struct UNet {  // [N, channels, H, W] -> [N, classes, H, W]; H and W are multiples of 2^levels
  UNet(std::int64_t channels, std::int64_t classes, std::int64_t width, std::int64_t levels)
      : bottom(width << (levels - 1), width << levels), head(width, classes, 1) {
    for (std::int64_t i = 0; i < levels; ++i) down.emplace_back(i == 0 ? channels : width << (i - 1), width << i);
    for (std::int64_t i = levels; i > 0; --i) {
      up.emplace_back(width << i, width << (i - 1), 2, nn::ConvTranspose2dOptions{.stride = 2});
      join.emplace_back(width << i, width << (i - 1));
    }
  }
  nn::ModuleList<Twice> down;
  Twice bottom;
  nn::ModuleList<nn::ConvTranspose2d> up;
  nn::ModuleList<Twice> join;
  nn::Conv2d head;
  MANTISSA_FIELDS(down, bottom, up, join, head)

  Tensor operator()(const Tensor& image) const {
    Tensor x = image;
    std::vector<Tensor> before;  // each halving, for the way back
    for (const Twice& level : down) {
      before.push_back(level(x));
      x = max_pool2d(before.back(), 2);
    }
    x = bottom(x);
    for (std::size_t i = 0; i < up.size(); ++i) x = join[i](cat({before[before.size() - 1 - i], up[i](x)}, 1));
    return head(x);
  }
};

int run(int argc, char** argv) {
  samples::Options o{.dataset = "fashion", .model = "unet", .epochs = 3, .batch = 16, .lr = 2e-3};
  std::int64_t width = 16, levels = 3, size = 128, classes = 21, ignored = 255;
  std::string picture = "unet.png";
  samples::configure(
      argc, argv,
      {.description = "Learns the class of every pixel: of scenes made of small pictures or, with --dataset folder, of "
                      "the pictures in --data FOLDER: images/..., and masks/... of the same names (PNG).",
       .datasets = {"fashion", "mnist", "synthetic", "folder"},
       .flags = {{"--width", &width, "Channels at full size; twice as many after each halving"},
                 {"--levels", &levels, "Halvings of the picture"},
                 {"--size", &size, "Of a folder's pictures: pixels along a window, random in training"},
                 {"--classes", &classes, "Of a folder's masks, the background included"},
                 {"--ignore", &ignored, "Pixels of this class in masks do not count", {}, 0},
                 {"--picture", &picture, "PNG file, written after each epoch: pictures, masks, what was found"}}},
      o);
  const bool folder = o.dataset == "folder";
  if (!folder) classes = 11, size = 64;
  check(!folder || !o.data.empty(), "--dataset folder needs --data FOLDER");
  check(levels <= 16 && size % (std::int64_t{1} << levels) == 0, "--size ", size, " cannot be halved ", levels,
        " times");

  // A folder's files are split; only training cuts random windows.
  const auto part = [&](std::size_t i, std::optional<data::ResizedCropOptions> crop, std::int64_t scenes) {
    if (folder) {
      const auto set = data::mask_folder(o.data + "/images", o.data + "/masks", {.size = size, .random_crop = crop});
      const Pipeline p = Pipeline(set).random_split({0.9, 0.1}, 1)[i];
      return o.limit == 0 ? p : p.take(o.limit);
    }
    const data::Dataset set = data::load_dataset(o.dataset, i == 0 ? data::Split::train : data::Split::test, o.data);
    return Pipeline(samples::scenes_of(set, o.limit > 0 ? std::min(o.limit, scenes) : scenes, i));
  };
  auto& world = distributed::world();
  const Pipeline train_set = part(0, data::ResizedCropOptions{.scale = {0.25f, 1}}, 4000);
  const auto loader_of = [&](const Pipeline& p) {
    return p.batch(o.batch).normalize(0.5f, 0.5f).threads(o.workers).to(samples::device_of(o)).loader();
  };
  const bool mirrored = folder || o.dataset == "fashion";  // it would change digits
  data::Loader loader = loader_of(
      train_set.shuffle(o.seed).shard(world.rank(), world.size()).random_flip(mirrored ? 0.5f : 0).drop_last());
  data::Loader test_loader = loader_of(part(1, {}, 500).shard(world.rank(), world.size(), data::Uneven::keep));

  UNet net(folder ? 3 : 1, classes, width, levels);
  samples::Run run(o, {.steps_per_epoch = loader.batches(), .items_per_step = o.batch, .items = "images"});
  run.keep("loader", loader);
  run.keep("net", net);
  run.parallel(net);
  optim::Optimizer& optimizer = run.optimizer("optim", nn::named_parameters(net));
  data::Batch batch;
  run.evaluate([&] {
    const NoGrad no_grad;
    nn::eval(net);
    data::ConfusionMatrix matrix(classes, ignored);
    Tensor shown;
    while (test_loader.next(batch)) {
      const Tensor found = amp::autocast(run.dtype, [&] { return argmax(net(batch.image), 1); });
      matrix.add(found, batch.label);
      if (!shown.defined())
        shown = cat({batch.image.expand({-1, 3, -1, -1}), samples::colored(batch.label), samples::colored(found)});
    }
    if (shown.defined() && world.rank() == 0) samples::save_pictures(run, picture, shown, shown.size(0) / 3);
    nn::train(net);
    const Tensor counts = matrix.matrix();
    world.all_reduce(counts);
    const data::ConfusionMatrix all(counts);
    return samples::Values{{"pixel_accuracy", all.accuracy()}, {"mean_iou", all.iou(data::Average::macro)}};
  });
  run.onnx(net, {zeros({2, folder ? 3 : 1, size, size})},
           {.input_names = {"image"}, .output_names = {"logits"}}, std::ref(net));
  run.start(train_set.info().source, nn::count(net));
  while (run.next()) {
    while (!loader.next(batch)) {}  // next() returns false once per epoch
    optimizer.zero_grad();
    const Tensor loss = amp::autocast(
        run.dtype, [&] { return cross_entropy(net(batch.image), batch.label, {.ignore_index = ignored}); });
    backward(run.scaler.scale(loss));
    run.scaler.step(optimizer);
    run.scaler.update();
    run.done({{"loss", loss}});
  }
  return run.finish();
}

int main(int argc, char** argv) { return samples::run_guarded(run, argc, argv); }
