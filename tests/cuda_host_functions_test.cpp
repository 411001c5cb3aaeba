// Functions that compute on the host, given tensors of the CUDA device: each copies them, or says in an error that it
// takes none. (Under the shim the host cannot read device memory: a function that forgets to copy ends the test.)
#include <filesystem>
#include <functional>
#include <sstream>

#include "core/accelerator.h"
#include "data/auto_augment.h"
#include "data/color.h"
#include "data/crops.h"
#include "data/blur.h"
#include "data/metrics.h"
#include "data/transforms.h"
#include "io/checkpoint.h"
#include "io/image.h"
#include "io/npy.h"
#include "io/safetensors.h"
#include "io/summary_writer.h"
#include "io/wav.h"
#include "mantissa.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

std::string file(const std::string& name) {
  return (std::filesystem::temp_directory_path() / ("mantissa_host_functions_" + name)).string();
}

}  // namespace

TEST_CASE("functions of the host take tensors of the device, or say that they do not") {
  if (!cuda_is_available()) {
    WARN("no GPU: nothing was tested");
    return;
  }
  const Tensor x = random_tensor({3, 8, 8}, 1, 0, 1).to(cuda), bytes = cast(x * 255.0, u8);
  const Tensor images = stack({x, x}), labels = from_data(std::vector<std::int64_t>{1, 0}, {2}).to(cuda);
  const Tensor scores = random_tensor({2, 3}, 2).to(cuda);
  const auto draws = [] { return data::Draws(7, data::Purpose::augment, 0); };
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"printing", [&] { std::ostringstream() << x; }},
      {"item", [&] { (void)x[{0, 0, 0}].item(); }},
      {"save_safetensors", [&] {
         io::save_safetensors(file("a.safetensors"), {{"x", x}});
         CHECK(same_bits(io::load_safetensors(file("a.safetensors"))["x"], x.to(cpu)));
       }},
      {"save_npy", [&] {
         io::save_npy(file("a.npy"), x);
         CHECK(same_bits(io::load_npy(file("a.npy")), x.to(cpu)));
       }},
      {"save_npz", [&] { io::save_npz(file("a.npz"), {{"x", x}}); }},
      {"write_png", [&] {
         io::write_png(file("a.png"), bytes);
         CHECK(io::encode_png(bytes) == io::encode_png(bytes.to(cpu)));
       }},
      {"write_jpeg", [&] { io::write_jpeg(file("a.jpg"), x); }},
      {"save_image_grid", [&] { io::save_image_grid(file("b.png"), images); }},
      {"save_wav", [&] { io::save_wav(file("a.wav"), x[0], 8000); }},
      {"add_image", [&] { io::SummaryWriter(file("logs")).add_image("x", x, 0); }},
      {"add_histogram", [&] { io::SummaryWriter(file("logs")).add_histogram("x", x, 0); }},
      {"save_checkpoint", [&] {
         io::Checkpoint c;
         c.put("model", {{"x", x}});
         io::save_checkpoint(file("a.ckpt"), c);
       }},
      {"save_onnx", [&] {
         nn::Linear net(8, 4);
         nn::to(net, cuda);
         nn::save_onnx(net, file("a.onnx"), {x[0]});
       }},
      {"Accuracy", [&] { data::Accuracy().add(scores, labels); }},
      {"ConfusionMatrix", [&] { data::ConfusionMatrix(3).add(scores, labels); }},
      {"normalize", [&] { (void)data::normalize(images, {0.5f, 0.5f, 0.5f}, {1, 1, 1}); }},
      {"to_float", [&] { (void)data::to_float(bytes.unsqueeze(0)); }},
      {"random_flip_", [&] { Tensor i = images.clone(); auto d = draws(); data::random_flip_(i, d); }},
      {"random_crop", [&] { auto d = draws(); (void)data::random_crop(images, 2, d); }},
      {"cutout_", [&] { Tensor i = images.clone(); auto d = draws(); data::cutout_(i, d, 3); }},
      {"random_erasing_", [&] { Tensor i = images.clone(); auto d = draws(); data::random_erasing_(i, d, {.p = 1}); }},
      {"gaussian_noise_", [&] { Tensor i = images.clone(); auto d = draws(); data::gaussian_noise_(i, d); }},
      {"gaussian_blur", [&] { (void)data::gaussian_blur(images, 3, 1); }},
      {"adjust_sharpness_", [&] { Tensor i = images.clone(); data::adjust_sharpness_(i, 2); }},
      {"adjust_hue_", [&] { Tensor i = images.clone(); data::adjust_hue_(i, 0.2); }},
      {"adjust_contrast_", [&] { Tensor i = images.clone(); data::adjust_contrast_(i, 0.2); }},
      {"grayscale", [&] { (void)data::grayscale(images); }},
      {"five_crop", [&] { (void)data::five_crop(images, 4, 4); }},
      {"trivial_augment_wide_", [&] {
         Tensor i = bytes.unsqueeze(0).clone();
         auto d = draws();
         data::trivial_augment_wide_(i, d);
       }},
      {"linear_transformation", [&] {
         const Tensor matrix = random_tensor({192, 192}, 3).to(cuda);
         (void)data::linear_transformation(images, matrix, zeros({192}, {.device = cuda}));
       }},
      {"orthogonal_", [&] {
         nn::Linear net(8, 4);
         nn::to(net, cuda);
         nn::init::orthogonal_(net.weight);
         nn::init::xavier_uniform_(net.weight);
         nn::init::trunc_normal_(net.weight);
       }},
      {"to_vector", [&] { CHECK(x.to_vector<float>().size() == 192); }},
      {"describe", [&] { (void)describe(x); }},
  };
  for (const auto& [name, call] : calls) {
    INFO(name);
    std::string refused;
    try {
      call();
    } catch (const Error& e) { refused = e.what(); }
    INFO(refused);
    CHECK((refused.empty() || refused.find("cuda") != std::string::npos || refused.find("CPU") != std::string::npos));
  }
}
