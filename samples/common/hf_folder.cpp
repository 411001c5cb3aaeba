#include "hf_folder.h"

#include <mantissa/core/json_text.h>
#include <mantissa/data/folders.h>
#include <mantissa/io/file.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace samples {

using namespace mantissa;

namespace {

Json read_json(const std::string& path) {
  const std::string text = io::read_file(path, 16 << 20);
  check_json(text, path);
  Json json = Json::parse(text);
  if (!json.is_object()) io::fail_format(path, "is no JSON object");
  return json;
}

// The unique files that an index names; paths outside the folder are rejected.
std::set<std::string> files_of(const std::string& index) {
  const Json json = read_json(index), map = json.value("weight_map", Json());
  std::set<std::string> files;
  if (!map.is_object() || map.empty()) io::fail_format(index, "has no weight_map");
  for (const auto& [name, file] : map.items()) {
    const std::string text = file.is_string() ? file.get<std::string>() : "";
    if (!text.ends_with(".safetensors") || text.find('/') != text.npos)
      io::fail_format(index, io::quote(name), " is in no .safetensors file of the folder");
    files.insert(text);
  }
  return files;
}

}  // namespace

Json read_json(const std::string& path, const Json& without) {
  return data::path_exists(path) ? read_json(path) : without;
}
Json read_config(const std::string& folder, const std::string& advice) {
  const std::string path = folder + "/config.json";
  check(data::path_exists(path), "the folder ", folder, " has no config.json", advice);
  return read_json(path);
}

std::int64_t whole(const Json& config, const char* name, std::int64_t usual, const std::string& path) {
  const Json value = config.value(name, Json());
  if (value.is_null() && usual > 0) return usual;
  if (!value.is_number_unsigned() || value > (1 << 24) || value < 1)
    io::fail_format(path, name, " must be a whole number from 1 to 2^24");
  return value.get<std::int64_t>();
}
double positive(const Json& config, const char* name, double usual, const std::string& path) {
  const Json value = config.value(name, Json());
  if (value.is_null() && usual > 0) return usual;
  if (!value.is_number() || value <= 0) io::fail_format(path, name, " must be a positive number");
  return value.get<double>();
}

NamedTensors read_weights(const std::string& folder, const std::string& advice) {
  const std::string safe = folder + "/model.safetensors", index = safe + ".index.json",
                    pickled = folder + "/pytorch_model.bin";
  if (data::path_exists(safe)) return io::load_safetensors(safe).tensors;
  if (data::path_exists(index)) {
    NamedTensors all;
    for (const std::string& file : files_of(index))
      for (auto& tensor : io::load_safetensors(folder + "/" + file).tensors) all.push_back(std::move(tensor));
    return all;
  }
  check(data::path_exists(pickled), "the folder ", folder, " has no model.safetensors and no pytorch_model.bin",
        advice);
  return io::load_torch(pickled).tensors;
}

void check_has(const NamedTensors& weights, const std::string& name, const Dims& sizes, const std::string& path) {
  const auto found = std::ranges::find(weights, name, &NamedTensors::value_type::first);
  if (found == weights.end()) io::fail_format(path, "asks for ", name, ", which the weights lack");
  if (found->second.sizes() != sizes)
    io::fail_format(path, "asks for ", name, " ", sizes, ", the weights have ", found->second);
}

void make_folder(const std::string& folder) {
  std::filesystem::create_directories(folder);
  const io::AtomicFile possible(folder + "/config.json");
}

void write_folder(const std::string& folder, const Json& config, const NamedTensors& weights,
                  const data::Bpe& bpe) {
  make_folder(folder);
  io::save_safetensors(folder + "/model.safetensors", weights, {{"format", "pt"}});
  bpe.save(folder + "/tokenizer.json");
  for (const auto& [name, text] :
       {std::pair("config.json", config.dump(2)),
        {"tokenizer_config.json", std::string("{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}")}}) {
    io::AtomicFile file(folder + "/" + name);
    file.write(text);
    file.commit();
  }
}

}  // namespace samples
