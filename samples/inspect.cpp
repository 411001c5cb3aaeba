// Lists the contents of a tensor file, and converts between formats. No code in a file is ever run.
//   inspect model.pt                                 names, dtypes, shapes and the range of the values
//   inspect checkpoint.pt --save model.safetensors   safetensors, .npz, or .npy of a single tensor
#include <fmt/format.h>
#include <mantissa/mantissa.h>

#include <CLI/CLI.hpp>

using namespace mantissa;

struct Contents {
  NamedTensors tensors;
  io::Metadata values;
};

Contents read(const std::string& path) {
  if (path.ends_with(".npy")) return {{{"array", io::load_npy(path)}}, {}};
  if (path.ends_with(".npz")) return {io::load_npz(path), {}};
  if (io::is_torch_file(path)) {
    io::TorchFile file = io::load_torch(path);
    return {std::move(file.tensors), std::move(file.values)};
  }
  io::Safetensors file = io::load_safetensors(path);
  return {std::move(file.tensors), std::move(file.metadata)};
}

void write(const std::string& path, const Contents& c) {
  if (path.ends_with(".npz")) return io::save_npz(path, c.tensors);
  if (path.ends_with(".npy")) {
    check(c.tensors.size() == 1, "--save ", path, ": a .npy file holds one array, here are ", c.tensors.size());
    return io::save_npy(path, c.tensors[0].second);
  }
  check(path.ends_with(".safetensors"), "--save ", path, ": the name must end in .safetensors, .npz or .npy");
  io::save_safetensors(path, c.tensors, c.values);
}

int main(int argc, char** argv) try {
  std::string path, save;
  CLI::App app("Lists the tensors of a .safetensors, .pt, .npz or .npy file.");
  app.add_option("file", path, "The file")->required();
  app.add_option("--save", save, "Write them to this .safetensors, .npz or .npy file");
  CLI11_PARSE(app, argc, argv);
  const Contents c = read(path);
  std::size_t width = 4;
  for (const auto& [name, t] : c.tensors) width = std::max(width, std::min<std::size_t>(name.size(), 60));
  std::int64_t elements = 0;
  for (const auto& [name, t] : c.tensors) {
    const std::string range = t.numel() > 0 ? fmt::format("{:.4g} to {:.4g}", t.min().item(), t.max().item()) : "empty";
    fmt::print("{:<{}}  {:<24}  {}\n", name, width, describe(t), range);
    elements += t.numel();
  }
  for (const auto& [name, value] : c.values) fmt::print("{} = {}\n", name, value);
  fmt::print("{} tensors, {} elements\n", c.tensors.size(), elements);
  if (!save.empty()) write(save, c);
} catch (const std::exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
