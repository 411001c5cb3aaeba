// Files of torch.save: those written by PyTorch (tests/golden/files.py) give its tensors and numbers, and the list of
// bad files (P1 to P12) is rejected with one message that names the file.
#include "io/torch_file.h"

#include <map>
#include <random>

#include "bad_file.h"
#include "catch_compat.h"
#include "core/ops.h"
#include "io/pickle.h"
#include "io/zip.h"
#include "nn/conv.h"
#include "nn/functions.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "temp_dir.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using io::load_torch;

namespace {

const std::string golden = MANTISSA_SOURCE_DIR "/tests/golden/files/";

std::map<std::string, Tensor> tensors_of(const std::string& name) {
  const io::TorchFile file = load_torch(golden + name);
  return {file.tensors.begin(), file.tensors.end()};
}
bool is_counted(const Tensor& t, const Dims& sizes) {
  return t.sizes() == sizes && equal(t.to(f64), reshape(arange(checked_numel(sizes)), sizes).to(f64));
}

// --- handwritten pickles ---
std::string text(const std::string& s) { return "\x8c" + std::string(1, static_cast<char>(s.size())) + s; }
std::string number(std::uint32_t n) { return "J" + std::string(reinterpret_cast<const char*>(&n), 4); }
std::string name(const std::string& module, const std::string& n) { return "c" + module + "\n" + n + "\n"; }
std::string storage(const std::string& type, const std::string& key, std::uint32_t count) {
  return "(" + text("storage") + name("torch", type) + text(key) + text("cpu") + number(count) + "tQ";
}
std::string tensor(const std::string& of, const std::string& offset, const std::string& sizes,
                   const std::string& strides) {
  return name("torch._utils", "_rebuild_tensor_v2") + "(" + of + offset + "(" + sizes + "t(" + strides + "t\x89" +
         name("collections", "OrderedDict") + ")RtR";
}
std::string entry(const std::string& key, const std::string& value) { return "}" + text(key) + value + "s"; }

// A file with this pickle, and a storage "0" with these bytes.
void write(const std::string& path, const std::string& pickle, const std::string& data = std::string(24, '\0')) {
  io::ZipWriter zip(path);
  zip.add("m/data.pkl", "\x80\2", pickle + ".");
  zip.add("m/data/0", data, "");
  zip.commit();
}
void refuses(const std::string& pickle, const std::string& fragment, const std::string& data = std::string(24, '\0')) {
  const TempDir dir;
  write(dir / "bad.pt", pickle, data);
  refuses_file(load_torch, dir / "bad.pt", fragment);
}

struct Net {
  nn::Conv2d conv{2, 3, 3};
  nn::BatchNorm2d norm{3};
  nn::Linear fc{4, 2};
  MANTISSA_FIELDS(conv, norm, fc)
};

}  // namespace

TEST_CASE("a state dict of PyTorch is loaded into a module, buffers and counters too") {
  Net net;
  nn::load(net, golden + "state_dict.pt");
  CHECK(is_counted(net.conv.weight.detach(), {3, 2, 3, 3}));
  CHECK(is_counted(net.conv.bias.detach(), {3}));
  CHECK(is_counted(net.fc.weight.detach(), {2, 4}));
  const io::TorchFile file = load_torch(golden + "state_dict.pt");
  CHECK(file.tensors.size() == nn::state_dict(net).size());
  CHECK(file.tensors[0].first == "conv.weight");
  CHECK(file.values.empty());
}

TEST_CASE("a checkpoint gives its state dicts under their names, and the numbers between them as text") {
  for (const char* name : {"checkpoint.pt", "checkpoint_protocol_4.pt"}) {
    INFO(name);
    const io::TorchFile file = load_torch(golden + name);
    std::map<std::string, std::string> values(file.values.begin(), file.values.end());
    CHECK(values["epoch"] == "3");
    CHECK(values["loss"] == "0.25");
    CHECK(values["name"] == "run");
    CHECK(values["done"] == "True");
    CHECK(values["nothing"] == "None");
    CHECK(values["history.1"] == "2.5");
    CHECK(values["size.1"] == "3");
    CHECK(values["dtype"] == "torch.float32");
    CHECK(values["optimizer.param_groups.0.lr"] == "0.5");
    const std::map<std::string, Tensor> tensors(file.tensors.begin(), file.tensors.end());
    CHECK(tensors.at("optimizer.state.4.step").item() == 1);
    CHECK(tensors.at("optimizer.state.4.exp_avg").sizes() == Dims{2, 4});
    Net net;
    nn::load(net, golden + name, {.prefix = "model."});
    CHECK(is_counted(net.conv.weight.detach(), {3, 2, 3, 3}));
    CHECK_THROWS_WITH(nn::load(net, golden + name), Contains("did you mean LoadOptions{.prefix = \"model.\"}?"));
    CHECK_THROWS_WITH(nn::load(net, golden + name, {.prefix = "net."}), Contains("no name begins with \"net.\""));
  }
}

TEST_CASE("numbers of any size keep their digits, devices are their names") {
  const TempDir dir;
  const auto value = [&](const std::string& pickled) {
    write(dir / "one.pt", entry("x", pickled));
    const io::TorchFile file = load_torch(dir / "one.pt");
    REQUIRE(file.values.size() == 1);
    return file.values[0].second;
  };
  const auto integer = [](const std::string& bytes) {
    return "\x8a" + std::string(1, static_cast<char>(bytes.size())) + bytes;
  };
  CHECK(value(integer(std::string(8, '\xff') + std::string(1, '\0'))) == "18446744073709551615");  // a seed
  CHECK(value(integer(std::string(8, '\0') + "\x01")) == "18446744073709551616");
  CHECK(value(integer(std::string(8, '\0') + "\xff")) == "-18446744073709551616");
  CHECK(value(integer(std::string(15, '\xff') + "\x7f")) == "170141183460469231731687303715884105727");
  CHECK(value(integer(std::string(9, '\xff'))) == "-1");
  CHECK(value(integer(std::string(9, '\0'))) == "0");
  CHECK(value(std::string("G\x3f\xef\xff\xff\xff\xff\xff\xff", 9)) == "0.9999999999999999");
  CHECK(value(name("torch", "device") + text("cpu") + "\x85R") == "cpu");
  CHECK(value(name("torch", "device") + text("cuda") + number(1) + "\x86R") == "cuda:1");
  refuses(entry("x", name("torch", "device") + number(1) + "\x85R"), "no device that can be read");
  refuses(entry("x", integer(std::string(33, '\1'))), "has an integer of 33 bytes");
}

TEST_CASE("every dtype of PyTorch's storages is read, narrow integers as i32") {
  const auto t = tensors_of("dtypes.pt");
  REQUIRE(t.size() == 10);
  const std::map<std::string, Dtype> expected{{"float32", f32}, {"float64", f64}, {"float16", f16}, {"bfloat16", bf16},
                                              {"int64", i64},   {"int32", i32},   {"int16", i32},   {"int8", i32},
                                              {"uint8", u8},    {"bool", boolean}};
  for (const auto& [name, dtype] : expected) {
    INFO(name);
    CHECK(t.at(name).dtype() == dtype);
    if (dtype != boolean) CHECK(is_counted(t.at(name), {2, 3}));
  }
  CHECK(t.at("bool").to_vector<int>() == std::vector<int>{0, 1, 1, 1, 1, 1});
}

TEST_CASE("views keep their strides, and share what they shared") {
  const auto t = tensors_of("views.pt");
  CHECK(is_counted(t.at("whole"), {4, 6}));
  CHECK(t.at("turned").strides() == Dims{1, 6});
  CHECK(equal(t.at("turned"), t.at("whole").t()));
  CHECK(t.at("part").to_vector<int>() == std::vector<int>{6, 8, 10, 12, 14, 16});
  CHECK(t.at("scalar").dim() == 0);
  CHECK(t.at("scalar").item() == 15);
  CHECK(t.at("empty").sizes() == Dims{0, 6});
  CHECK(is_counted(t.at("parameter"), {3}));
  CHECK(t.at("turned").storage() == t.at("whole").storage());
  CHECK(is_counted(tensors_of("tensor.pt").at("tensor"), {5}));
}

TEST_CASE("code in a file is refused by its name, and never run") {
  CHECK_THROWS_WITH(load_torch(golden + "module.pt"),
                    Contains("code object \"torch.nn.modules.container.Sequential\"") && Contains("state_dict()"));
  refuses(name("os", "system") + text("true") + "\x85R", "code object \"os.system\", which is refused");
  refuses(text("os") + text("system") + "\x93" + text("true") + "\x85R", "code object \"os.system\"");
  refuses(name("builtins", "eval") + ")R", "code object \"builtins.eval\"");
  refuses(name("torch", "FloatStorage") + ")\x81", "operation that plain data do not need");
  refuses(entry("x", name("torch", "FloatStorage") + ")R"), "which makes no tensor");
}

TEST_CASE("tensors that do not lie in their storage are refused") {
  const std::string of = storage("FloatStorage", "0", 6);
  const TempDir dir;
  write(dir / "good.pt", entry("x", tensor(of, number(2), number(2) + number(2), number(2) + number(1))));
  CHECK(load_torch(dir / "good.pt").tensors.at(0).second.sizes() == Dims{2, 2});
  refuses(entry("x", tensor(of, number(3), number(2) + number(2), number(2) + number(1))), "do not lie in its storage");
  refuses(entry("x", tensor(of, number(0xffffffff), number(2), number(1))), "do not lie in its storage");
  refuses(entry("x", tensor(of, number(0), number(2), number(0xffffffff))), "negative size or stride");
  const std::string large = "\x8a\x08" + std::string(7, '\xff') + "\x7f";  // 2^63 - 1
  refuses(entry("x", tensor(of, number(0), large + large, number(1) + number(1))), "do not lie in its storage");
  refuses(entry("x", tensor(of, number(0), number(2), large)), "do not lie in its storage");
  refuses(entry("x", tensor(of, number(0), number(2) + number(2), number(1))), "has sizes [2, 2] and strides [1]");
  std::string nine;
  for (int i = 0; i < 9; ++i) nine += number(1);
  refuses(entry("x", tensor(of, number(0), nine, nine)), "more than 8 dimensions");
  refuses(entry("x", tensor(storage("FloatStorage", "1", 6), number(0), number(2), number(1))), "has no entry");
  refuses(entry("x", tensor(storage("FloatStorage", "0", 7), number(0), number(2), number(1))), "has 24 bytes where 7");
  refuses(entry("x", tensor(storage("BoolStorage", "0", 24), number(0), number(2), number(1))), "expected 0 or 1",
          std::string(24, '\7'));
  refuses(entry("x", of), "a storage without a tensor");
}

TEST_CASE("pickles that are cut short, endless or no pickles are refused") {
  refuses("(", "takes more than it has put there");
  refuses("", "takes more than it has put there");
  refuses("R", "takes more than it has put there");
  refuses("h\5", "number 5, which it has not remembered");
  refuses("}r\xff\xff\xff\x7f", "remembers under the number 2147483647");
  refuses(std::string("\x8b\0\0\0\x80", 5) + "1", "has an integer of 2147483648 bytes");
  refuses("X\xff\xff\xff\x7fyes", "is cut short");
  refuses("\x80\x09", "is of protocol 9");
  refuses("cos", "is cut short");
  refuses(std::string(1001, '('), "is nested too deeply");
  std::string puts;
  for (int i = 0; i < 500'001; ++i) puts += "}0";
  refuses(puts, "more than a million operations");
  std::string copies = "](";  // a list of pairs, made into a dictionary again and again
  for (int i = 0; i < 2000; ++i) copies += "NN\x86";
  copies += "eq\2";
  for (int i = 0; i < 3000; ++i) copies += name("collections", "OrderedDict") + "h\2\x85R0";
  refuses(copies, "makes more than 8000000 elements");
  refuses("](NeeR" + name("collections", "OrderedDict"), "takes more than it has put there");
  refuses(name("collections", "OrderedDict") + "](](NeNe\x85R", "are no pairs");
  std::string nested = "N";
  for (int i = 0; i < 70; ++i) nested = "]" + nested + "a";
  refuses(nested, "is nested too deeply");
  refuses("]q\1h\1a", "is nested too deeply");  // contains itself
  refuses("}" + text("a") + "N" + "s" + text("a") + "Ns", "two values of the name \"a\"");
  std::string doubling = "]q" + std::string(1, '\0');  // 2^40 elements
  for (char i = 1; i < 40; ++i) {
    const std::string before(1, static_cast<char>(i - 1));
    doubling += "]q" + std::string(1, i) + "h" + before + "ah" + before + "a";
  }
  refuses(doubling + "h\x27", "more than 1000000 values");
}

TEST_CASE("other kinds of files are named") {
  const TempDir dir;
  put_file(dir / "old.pt", "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.");
  CHECK_THROWS_WITH(load_torch(dir / "old.pt"), Contains("before version 1.6"));
  put_file(dir / "text.pt", std::string(100, 'x'));
  CHECK_THROWS_WITH(load_torch(dir / "text.pt"), Contains("is no zip archive"));
  {
    io::ZipWriter zip(dir / "script.pt");
    zip.add("m/data.pkl", "N.", "");
    zip.add("m/constants.pkl", "N.", "");
    zip.commit();
  }
  CHECK_THROWS_WITH(load_torch(dir / "script.pt"), Contains("is a TorchScript archive"));
  {
    io::ZipWriter zip(dir / "big.pt");
    zip.add("m/data.pkl", "N.", "");
    zip.add("m/byteorder", "big", "");
    zip.commit();
  }
  CHECK_THROWS_WITH(load_torch(dir / "big.pt"), Contains("big-endian"));
  CHECK_THROWS_WITH(load_torch(golden + "arrays.npz"), Contains("there is no data.pkl"));
  CHECK(io::is_torch_file(golden + "state_dict.pt"));
  CHECK_FALSE(io::is_torch_file(dir / "old.pt"));
}

TEST_CASE("mutated pickles are read or refused, and nothing else") {
  const unsigned seed = 20261122;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  std::string whole;
  {
    const io::ZipReader zip(golden + "checkpoint.pt");
    whole = zip.read(*zip.find("checkpoint/data.pkl"));
  }
  const TempDir dir;
  const std::string_view names[] = {"collections.OrderedDict", "torch._utils._rebuild_tensor_v2", "torch.float32",
                                    "torch.FloatStorage", "torch.LongStorage", "torch.Size"};
  CHECK_NOTHROW(io::Pickle(whole, "m.pt", names));
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = whole;
    for (int n = 0; n < 1 + i % 4; ++n) bytes[random() % bytes.size()] = static_cast<char>(random());
    try {
      const io::Pickle pickle(bytes, "m.pt", names);
      if (i % 30 != 0) continue;  // each archive waits for the disk
      write(dir / "m.pt", bytes);
      load_torch(dir / "m.pt");
    } catch (const FormatError&) {
    }
  }
}
