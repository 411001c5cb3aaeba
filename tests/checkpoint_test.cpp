// Checkpoints: exact round trips, damage of any kind detected before anything is returned, faults while saving, and
// helpful errors for a file of another model.
#include "io/checkpoint.h"

#include <cerrno>
#include <cstring>

#include "catch_compat.h"
#include "io/file.h"
#include "temp_dir.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using io::Checkpoint;
using io::load_checkpoint;
using io::save_checkpoint;

namespace {

Tensor filled(const Dims& sizes, Dtype dtype, int salt) {
  const Tensor t = Tensor::allocate(sizes, dtype);
  for (std::int64_t i = 0; i < t.nbytes(); ++i)
    static_cast<unsigned char*>(t.raw_data())[i] = static_cast<unsigned char>(i * 31 + salt);
  return t;
}

Checkpoint small(int salt) {
  Checkpoint c;
  c.put("model", {{"fc.weight", filled({2, 3}, f32, salt)}, {"fc.bias", filled({2}, f32, salt + 1)}});
  c.put("optim", {{"0.exp_avg", filled({2, 3}, f32, salt + 2)}, {"0.step", filled({}, i64, salt + 3)}});
  c.put("rng", {{"state", io::to_tensor(RngState{~std::uint64_t{0}, 17})}});
  c.set("step", std::to_string(salt));
  return c;
}

bool same(const Checkpoint& a, const Checkpoint& b) {
  if (a.metadata != b.metadata || a.tensors.size() != b.tensors.size()) return false;
  for (const auto& [name, t] : a.tensors) {
    const Tensor other = b.tensor(name);
    if (other.dtype() != t.dtype() || other.sizes() != t.sizes()) return false;
    if (std::memcmp(other.raw_data(), t.raw_data(), static_cast<std::size_t>(t.nbytes())) != 0) return false;
  }
  return true;
}

int fault_at = -1, steps_seen = 0;
int nth_fault(io::FileStep, std::size_t*) { return steps_seen++ == fault_at ? EIO : 0; }

}  // namespace

TEST_CASE("checkpoint: everything comes back") {
  const TempDir dir;
  const Checkpoint c = small(5);
  save_checkpoint(dir / "c", c);
  const Checkpoint back = load_checkpoint(dir / "c");
  CHECK(same(c, back));
  CHECK(back.text("step") == "5");
  CHECK(back.get("model").size() == 2);
  CHECK(back.get("mod").empty());
  CHECK(io::rng_from_tensor(back.tensor("rng.state")) == RngState{~std::uint64_t{0}, 17});
}

TEST_CASE("checkpoint: an empty one") {
  const TempDir dir;
  save_checkpoint(dir / "c", {});
  const Checkpoint back = load_checkpoint(dir / "c");
  CHECK(back.tensors.empty());
  CHECK(back.metadata.empty());
}

TEST_CASE("checkpoint: set replaces, reserved keys and missing entries are refused") {
  Checkpoint c;
  c.set("a", "1");
  c.set("a", "2");
  CHECK(c.text("a") == "2");
  CHECK_THROWS_WITH(c.set("mantissa.format", "x"), Contains("reserved"));
  CHECK_THROWS_WITH(c.text("b"), Contains("no metadata \"b\""));
  c.put("model", {{"weight", filled({1}, f32, 0)}});
  CHECK_THROWS_WITH(c.tensor("model.wieght"), Contains("did you mean \"model.weight\"?"));
  CHECK_THROWS_WITH(io::rng_from_tensor(filled({3}, i64, 0)), Contains("i64[2]"));
}

TEST_CASE("checkpoint: cut off at any byte it is refused, and never half loaded") {
  const TempDir dir;
  save_checkpoint(dir / "c", small(1));
  const std::string bytes = get_file(dir / "c");
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    put_file(dir / "cut", bytes.substr(0, n));
    INFO("cut at " << n << " of " << bytes.size());
    REQUIRE_THROWS_AS(load_checkpoint(dir / "cut"), FormatError);
  }
}

TEST_CASE("checkpoint: any flipped bit is found") {
  const TempDir dir;
  const Checkpoint original = small(1);
  save_checkpoint(dir / "c", original);
  const std::string bytes = get_file(dir / "c");
  int refused = 0;
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    put_file(dir / "d", damaged);
    try {
      load_checkpoint(dir / "d");
      FAIL("bit " << bit % 8 << " of byte " << bit / 8 << " was not noticed");
    } catch (const FormatError&) {
      ++refused;
    }
  }
  CHECK(refused == static_cast<int>(bytes.size() * 8));
}

TEST_CASE("checkpoint: a fault at any step of saving leaves one complete checkpoint") {
  const TempDir dir;
  const Checkpoint before = small(1), after = small(2);
  steps_seen = 0;
  fault_at = -1;
  io::set_fault_hook(nth_fault);
  save_checkpoint(dir / "c", before);
  const int steps = steps_seen;
  REQUIRE(steps > 6);
  for (fault_at = 0; fault_at < steps; ++fault_at) {
    INFO("step " << fault_at << " of " << steps);
    steps_seen = steps;  // out of reach while the old one is put in place
    save_checkpoint(dir / "c", before);
    steps_seen = 0;
    CHECK_THROWS_WITH(save_checkpoint(dir / "c", after), Contains("Input/output error"));
    const Checkpoint left = load_checkpoint(dir / "c");
    CHECK(same(left, fault_at == steps - 1 ? after : before));
    CHECK(dir.files() == 1);
  }
  io::set_fault_hook(nullptr);
}

TEST_CASE("checkpoint: foreign files are named") {
  const TempDir dir;
  io::save_safetensors(dir / "weights", {{"w", filled({1}, f32, 0)}});
  CHECK_THROWS_WITH(load_checkpoint(dir / "weights"), Contains("is a safetensors file but not a checkpoint"));
  put_file(dir / "html", "<html><body>Not found</body></html>");
  CHECK_THROWS_WITH(load_checkpoint(dir / "html"), Contains("an HTML page"));
  put_file(dir / "text", "this is a text file, long enough to have a header length");
  CHECK_THROWS_AS(load_checkpoint(dir / "text"), FormatError);
  CHECK_THROWS_WITH(load_checkpoint(dir / "none"), Contains("No such file"));
  io::save_safetensors(dir / "new", {}, {{"mantissa.format", "checkpoint"}, {"mantissa.version", "99"}});
  CHECK_THROWS_WITH(load_checkpoint(dir / "new"), Contains("version \"99\", this build reads 1"));
}

TEST_CASE("checkpoint: a tensor added or removed behind our back is found") {
  const TempDir dir;
  save_checkpoint(dir / "c", small(1));
  io::Safetensors file = io::load_safetensors(dir / "c");
  NamedTensors fewer = file.tensors, more = file.tensors;
  fewer.pop_back();
  more.emplace_back("model.extra", filled({1}, f32, 0));
  io::save_safetensors(dir / "fewer", fewer, file.metadata);
  io::save_safetensors(dir / "more", more, file.metadata);
  CHECK_THROWS_WITH(load_checkpoint(dir / "fewer"), Contains("5 tensors were saved, 4 are there"));
  CHECK_THROWS_WITH(load_checkpoint(dir / "more"), Contains("\"model.extra\" is wrong"));
}

TEST_CASE("describe_mismatch: says what is missing, unexpected, of another shape, and what was meant") {
  const Tensor a = filled({2, 3}, f32, 0), b = filled({3, 2}, f32, 0);
  CHECK(io::describe_mismatch({{"x", a}}, {{"x", a}}).empty());
  CHECK(io::describe_mismatch({{"fc1.weight", a}, {"fc2.bias", a}}, {{"fc1.weihgt", a}, {"fc2.bias", b}}) ==
        "missing \"fc1.weight\" (did you mean \"fc1.weihgt\"?); unexpected \"fc1.weihgt\" (did you mean "
        "\"fc1.weight\"?); \"fc2.bias\" has shape [3, 2], expected [2, 3]");
  NamedTensors many;
  for (int i = 0; i < 20; ++i) many.emplace_back("layer" + std::to_string(i), a);
  const std::string text = io::describe_mismatch(many, {});
  CHECK_THAT(text, Contains("and 17 more"));
  CHECK(text.size() < 200);
}
