// Object detection: boxes around the objects of a picture and their classes, by FCOS (Tian et al., 2019): each place of
// three feature maps says which object it lies in, and how far away its four sides are.
//   detector                                   scenes of three overlapping clothes of Fashion-MNIST; bf16
//   detector --dataset coco --data coco/train2017 --annotations instances_train2017.json
//            --test-data coco/val2017 --test-annotations instances_val2017.json --size 320 --width 32
//   detector --help
#include "common/pictures.h"
#include "common/scenes.h"

using namespace mantissa;
using data::Pipeline;

// A 3x3 convolution, a norm and relu.
struct Layer {
  Layer(std::int64_t in, std::int64_t out, std::int64_t stride = 1)
      : conv(in, out, 3, {.stride = stride, .padding = 1, .bias = false}), norm(8, out) {}
  nn::Conv2d conv;
  nn::GroupNorm norm;
  MANTISSA_FIELDS(conv, norm)

  Tensor operator()(const Tensor& x) const { return relu(norm(conv(x))); }
};

struct Detector {
  // Predicts from maps of `stride`, twice and four times that. Widths double with each halving.
  Detector(std::int64_t channels, std::int64_t class_count, std::int64_t width, std::int64_t stride)
      : classes(class_count), stride(stride),
        pyramid({width * stride / 2, width * stride, width * stride * 2}, 8 * width),
        head_classes(8 * width, class_count, 3, {.padding = 1}), head_sides(8 * width, 5, 3, {.padding = 1}) {
    for (std::int64_t halved = 2; halved <= 4 * stride; halved *= 2) {
      down.emplace_back(halved == 2 ? channels : width * halved / 4, width * halved / 2, 2);
      body.emplace_back(width * halved / 2, width * halved / 2);
    }
    for (int i = 0; i < 2; ++i)
      tower_classes.emplace_back(8 * width, 8 * width), tower_sides.emplace_back(8 * width, 8 * width);
    // At first every class is improbable (0.01), since most places lie in no object.
    nn::init::constant_(head_classes.bias, -std::log(99.0));
  }
  std::int64_t classes, stride;
  nn::ModuleList<Layer> down, body;
  nn::FeaturePyramidNetwork pyramid;
  nn::ModuleList<Layer> tower_classes, tower_sides;
  nn::Conv2d head_classes, head_sides;
  MANTISSA_FIELDS(down, body, pyramid, tower_classes, tower_sides, head_classes, head_sides)

  // [N, C, H, W] -> [N, places, classes + 5]: logits of the classes, distances of the left, upper, right and lower side
  // before softplus and in strides, and the logit of how near the middle of the object is.
  Tensor operator()(const Tensor& image) const {
    Tensor x = image;
    std::vector<Tensor> maps;
    for (std::size_t i = 0; i < down.size(); ++i) {
      x = body[i](down[i](x));
      if (i + 3 >= down.size()) maps.push_back(x);
    }
    std::vector<Tensor> found;
    for (const Tensor& map : pyramid(maps)) {
      Tensor a = map, b = map;
      for (std::size_t i = 0; i < tower_classes.size(); ++i) a = tower_classes[i](a), b = tower_sides[i](b);
      found.push_back(flatten(cat({head_classes(a), head_sides(b)}, 1), 2).transpose(1, 2));
    }
    return cat(found, 1);
  }
};

// The places of all maps, [places, 1] each: their centres and strides in pixels.
struct Places {
  Places(std::int64_t size, std::int64_t first, Device device) {
    std::vector<Tensor> xs, ys, strides;
    for (std::int64_t s = first; s <= 4 * first; s *= 2) {
      const Tensor at = (arange(size / s).to(f32) + 0.5) * static_cast<double>(s);
      const std::vector<Tensor> grid = meshgrid({at, at}, "ij");
      ys.push_back(grid[0].flatten()), xs.push_back(grid[1].flatten());
      strides.push_back(full({grid[0].numel()}, static_cast<double>(s)));
    }
    const auto column = [&](const std::vector<Tensor>& t) { return cat(t).unsqueeze(1).to(device); };
    x = column(xs), y = column(ys), stride = column(strides);
    // The largest distance to a side: small objects belong to the first map, large ones to the last.
    least = where(stride == static_cast<double>(first), zeros_like(stride), stride * 4);
    most = where(stride == static_cast<double>(4 * first), full_like(stride, 1e9), stride * 8);
  }
  Tensor x, y, stride, least, most;

  // Boxes [..., places, 4] whose sides are this far away, in strides.
  Tensor boxes(const Tensor& distances) const {
    const Tensor d = distances * stride;
    const Tensor middle = cat({x, y}, 1);
    return cat({middle - d.slice(-1, 0, 2), middle + d.slice(-1, 2, 4)}, -1);
  }
};

// For each place the smallest object in whose middle it lies: whether there is one [N, places], its class [N, places]
// and its box [N, places, 4]. No loop over pictures, and nothing waits for the device.
struct Goals {
  Tensor exists, label, box;
};
Goals goals_of(const Places& at, const Tensor& target) {
  const auto side = [&](std::int64_t k) { return target.select(2, k).unsqueeze(1); };  // [N, 1, objects]
  const Tensor x1 = side(0), y1 = side(1), x2 = side(2), y2 = side(3), label = side(4);
  const Tensor distances = stack({at.x - x1, at.y - y1, x2 - at.x, y2 - at.y});  // [4, N, places, objects]
  const Tensor farthest = amax(distances, 0), near = at.stride * 1.5;
  const Tensor possible = (amin(distances, 0) > 0) & (farthest > at.least) & (farthest <= at.most) & (label >= 0) &
                          (abs(at.x - (x1 + x2) / 2) < near) & (abs(at.y - (y1 + y2) / 2) < near);
  const Tensor area = where(possible, (x2 - x1) * (y2 - y1), full_like(farthest, 1e18));
  const Tensor chosen = argmin(area, 2);  // [N, places]
  const Tensor objects = gather(target, 1, chosen.unsqueeze(2).expand({-1, -1, target.size(2)}));
  return {amin(area, 2) < 1e18, objects.select(2, 4).to(i64), objects.slice(2, 0, 4)};
}

Tensor loss_of(const Detector& net, const Places& at, const Tensor& found, const Tensor& target) {
  const Goals goal = goals_of(at, target);
  const Tensor exists = goal.exists.to(f32), count = clamp_min(exists.sum(), 1);
  const Tensor classes = found.slice(2, 0, net.classes), middle = found.select(2, net.classes + 4);
  const Tensor wanted = one_hot(clamp_min(goal.label, 0), net.classes).to(f32) * exists.unsqueeze(2);
  // How near the middle is, from 0 to 1: the product of the proportions of opposite distances.
  const Tensor to =
      cat({cat({at.x, at.y}, 1) - goal.box.slice(2, 0, 2), goal.box.slice(2, 2, 4) - cat({at.x, at.y}, 1)}, 2);
  const Tensor a = to.slice(2, 0, 2), b = to.slice(2, 2, 4);
  const Tensor near = sqrt(clamp_min(prod(minimum(a, b) / clamp_min(maximum(a, b), 1e-6), 2), 0)) * exists;
  const Tensor boxes = at.boxes(softplus(found.slice(2, net.classes, net.classes + 4)));
  const Tensor apart = nn::generalized_box_iou_loss(boxes, goal.box);
  const Tensor centered = binary_cross_entropy_with_logits(middle, near, exists, Reduction::sum);
  return nn::sigmoid_focal_loss(classes, wanted, 0.25, 2, Reduction::sum) / count +
         (apart * near).sum() / clamp_min(near.sum(), 1) + centered / count;
}

// The objects in one picture, from its row of what the net gave: the best hundred that do not cover each other.
struct Found {
  Tensor boxes, scores, labels;
};
Found objects_in(const Detector& net, const Places& at, const Tensor& found) {
  const Tensor middle = sigmoid(found.slice(1, net.classes + 4, net.classes + 5));
  const Tensor scores = flatten(sqrt(sigmoid(found.slice(1, 0, net.classes)) * middle));
  const auto [best, index] = topk(scores, std::min<std::int64_t>(scores.numel(), 300));
  const Tensor label = index % net.classes;
  const Tensor boxes = index_select(at.boxes(softplus(found.slice(1, net.classes, net.classes + 4))), 0,
                                    floor_divide(index, net.classes));
  Tensor kept = nn::batched_nms(boxes, best, label, 0.6);
  kept = kept.slice(0, 0, std::min<std::int64_t>(kept.numel(), 100));
  return {index_select(boxes, 0, kept), index_select(best, 0, kept), index_select(label, 0, kept)};
}

// White frames around the boxes [K, 4] of an image [C, H, W].
void draw(const Tensor& image, const Tensor& boxes) {
  const std::int64_t h = image.size(1), w = image.size(2);
  for (std::int64_t i = 0; i < boxes.size(0); ++i) {
    const auto b = boxes[i].to_vector<float>();
    const auto within = [](float v, std::int64_t size) {
      return std::clamp<std::int64_t>(std::lround(v), 0, size - 1);
    };
    const std::int64_t x1 = within(b[0], w), y1 = within(b[1], h), x2 = within(b[2] - 1, w), y2 = within(b[3] - 1, h);
    for (const std::int64_t y : {y1, y2}) image.select(1, y).slice(1, x1, std::max(x1, x2) + 1).fill_(1);
    for (const std::int64_t x : {x1, x2}) image.select(2, x).slice(1, y1, std::max(y1, y2) + 1).fill_(1);
  }
}

int run(int argc, char** argv) {
  samples::Options o{.dataset = "fashion", .model = "detector", .epochs = 3, .batch = 16, .lr = 2e-3};
  std::int64_t width = 8, size = 320;
  std::string annotations, test_data, test_annotations, picture = "detector.png";
  samples::configure(
      argc, argv,
      {.description =
           "Finds objects: in scenes made of small pictures or, with --dataset coco, in the pictures of --data "
           "FOLDER, by a file in COCO's format.",
       .datasets = {"fashion", "mnist", "synthetic", "coco"},
       .flags = {{"--width", &width, "Channels at half the size, a multiple of 8; twice as many after each halving"},
                 {"--size", &size, "Of a folder's pictures: pixels along a side, a multiple of 32"},
                 {"--annotations", &annotations, "COCO's file for --data"},
                 {"--test-data", &test_data, "Folder of test pictures; default: --data"},
                 {"--test-annotations", &test_annotations, "COCO's file for it; default: a tenth of --data tests"},
                 {"--picture", &picture, "PNG file, written after each epoch: pictures, and what was found"}}},
      o);
  const bool coco = o.dataset == "coco";
  if (!coco) size = 64;
  const std::int64_t stride = coco ? 8 : 4, channels = coco ? 3 : 1;
  check(!coco || (!o.data.empty() && !annotations.empty()),
        "--dataset coco needs --data FOLDER and --annotations FILE");
  check(test_data.empty() || !test_annotations.empty(), "--test-data needs --test-annotations FILE");
  check(size % (4 * stride) == 0, "--size ", size, " is not a multiple of ", 4 * stride);
  check(width % 8 == 0, "--width ", width, " is not a multiple of 8");

  // Only training cuts windows around objects.
  const auto part = [&](std::size_t i, std::int64_t scenes) {
    const bool train = i == 0;
    if (coco) {
      const bool separate = !test_annotations.empty();
      const auto crop = train ? std::optional(data::IouCropOptions{}) : std::nullopt;
      const Pipeline all(data::coco_detection(train || test_data.empty() ? o.data : test_data,
                                              train || !separate ? annotations : test_annotations,
                                              {.height = size, .width = size, .random_crop = crop, .crowds = !train}));
      const Pipeline p = separate ? all : all.random_split({0.9, 0.1}, 1)[i];
      return o.limit == 0 ? p : p.take(o.limit);
    }
    const data::Dataset set = data::load_dataset(o.dataset, train ? data::Split::train : data::Split::test, o.data);
    return Pipeline(samples::scenes_of(set, o.limit > 0 ? std::min(o.limit, scenes) : scenes, i, true));
  };
  auto& world = distributed::world();
  const Pipeline train_set = part(0, 4000);
  const auto loader_of = [&](const Pipeline& p) {
    return p.batch(o.batch).normalize(0.5f, 0.5f).threads(o.workers).to(samples::device_of(o)).loader();
  };
  const bool mirrored = coco || o.dataset == "fashion";  // it would change digits
  data::Loader loader = loader_of(
      train_set.shuffle(o.seed).shard(world.rank(), world.size()).random_flip(mirrored ? 0.5f : 0).drop_last());
  const Pipeline test_set = part(1, 500).shard(world.rank(), world.size(), data::Uneven::keep);
  check(test_set.info().class_names == train_set.info().class_names,
        "--test-annotations: the categories are not those of --annotations");
  data::Loader test_loader = loader_of(test_set);

  Detector net(channels, train_set.info().classes, width, stride);
  samples::Run run(o, {.steps_per_epoch = loader.batches(), .items_per_step = o.batch, .items = "images"});
  run.keep("loader", loader);
  run.keep("net", net);
  run.parallel(net);
  optim::Optimizer& optimizer = run.optimizer("optim", nn::named_parameters(net));
  const Places places(size, stride, run.device);
  data::Batch batch;
  run.evaluate([&] {
    const NoGrad no_grad;
    nn::eval(net);
    data::MeanAveragePrecision precision(net.classes);
    Tensor shown;
    while (test_loader.next(batch)) {
      const Tensor found = amp::autocast(run.dtype, [&] { return net(batch.image); }).to(f32);
      const Tensor before = batch.image.to(cpu), after = before.clone();
      for (std::int64_t i = 0; i < found.size(0); ++i) {
        const auto [boxes, scores, labels] = objects_in(net, places, found[i]);
        const Tensor& target = batch.label[i];
        precision.add(boxes, scores, labels, target, target.size(1) > 5 ? target.select(1, 5) > 0 : Tensor());
        if (!shown.defined()) draw(after[i], boxes[scores > 0.5]);
      }
      if (!shown.defined()) shown = cat({before, after});
    }
    if (shown.defined() && world.rank() == 0) samples::save_pictures(run, picture, shown, shown.size(0) / 2);
    nn::train(net);
    precision.gather(world);
    return samples::Values{{"mAP", precision.value()}, {"mAP50", precision.value(0.5)}, {"recall", precision.recall()}};
  });
  run.onnx(net, {zeros({2, channels, size, size})}, {.input_names = {"image"}, .output_names = {"found"}},
           std::ref(net));
  run.start(train_set.info().source, nn::count(net));
  while (run.next()) {
    while (!loader.next(batch)) {}  // next() returns false once per epoch
    optimizer.zero_grad();
    const Tensor found = amp::autocast(run.dtype, [&] { return net(batch.image); }).to(f32);
    const Tensor loss = loss_of(net, places, found, batch.label);
    backward(run.scaler.scale(loss));
    run.scaler.step(optimizer);
    run.scaler.update();
    run.done({{"loss", loss}});
  }
  return run.finish();
}

int main(int argc, char** argv) { return samples::run_guarded(run, argc, argv); }
