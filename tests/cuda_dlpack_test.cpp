// core/dlpack.h: memory is shared, lives as long as it is referenced and is released once; the layout is that of the
// published structs; objects that are not valid tensors are refused and stay with their owner.
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "core/dlpack.h"
#include "core/from_blob.h"
#include "core/ops.h"
#include "tests/devices.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

// A tensor exported by another library: counts how often its deleter is called.
template <class Managed> struct Theirs {
  std::vector<float> data{1, 2, 3, 4, 5, 6};
  std::vector<std::int64_t> shape{2, 3}, strides{3, 1};
  int returned = 0;
  Managed managed{};
  Theirs() {
    managed.array = {data.data(), {1, 0}, 2, {2, 32, 1}, shape.data(), strides.data(), 0};
    managed.manager = this;
    managed.deleter = [](Managed* m) { ++static_cast<Theirs*>(m->manager)->returned; };
    if constexpr (requires { managed.version; }) managed.version = {1, 1};
  }
};
using Plain = Theirs<dlpack::ManagedTensor>;

}  // namespace

TEST_CASE("a tensor that is lent lives until it is given back, and both sides see what is written", "[dlpack]") {
  std::vector<float> memory{1, 2, 3, 4, 5, 6};
  int released = 0;
  dlpack::ManagedTensor* lent = nullptr;
  {
    Tensor x = from_blob(memory.data(), {2, 3}, [&](void*) { ++released; });
    lent = to_dlpack(x.t());
    x.fill_(7);
  }
  CHECK(released == 0);
  const dlpack::Array& array = lent->array;
  CHECK(static_cast<float*>(array.data) + array.byte_offset / 4 == memory.data());
  CHECK(memory[5] == 7);
  CHECK(std::vector<std::int64_t>(array.shape, array.shape + 2) == std::vector<std::int64_t>{3, 2});
  CHECK(std::vector<std::int64_t>(array.strides, array.strides + 2) == std::vector<std::int64_t>{1, 3});
  CHECK(array.device.type == 1);
  lent->deleter(lent);
  CHECK(released == 1);
}

TEST_CASE("the layout is the published one", "[dlpack]") {
  const std::pair<Dtype, std::array<int, 2>> published[] = {{f64, {2, 64}},  {f32, {2, 32}},   {f16, {2, 16}},
                                                            {bf16, {4, 16}}, {i64, {0, 64}},   {i32, {0, 32}},
                                                            {u8, {1, 8}},    {boolean, {6, 8}}};
  for (const auto& [dtype, type] : published) {
    const Tensor x = zeros({2, 3}, {.dtype = dtype});
    auto* const lent = to_dlpack(x);
    unsigned char bytes[sizeof *lent];
    std::memcpy(bytes, lent, sizeof bytes);
    std::int32_t device[2], dims;
    std::uint16_t lanes;
    void* data;
    std::memcpy(&data, bytes, 8);
    std::memcpy(device, bytes + 8, 8);
    std::memcpy(&dims, bytes + 16, 4);
    std::memcpy(&lanes, bytes + 22, 2);
    CHECK(data == x.raw_data());
    CHECK(device[0] == 1);
    CHECK(device[1] == 0);
    CHECK(dims == 2);
    CHECK(bytes[20] == type[0]);
    CHECK(bytes[21] == type[1]);
    CHECK(lanes == 1);
    CHECK(offsetof(dlpack::Array, shape) == 24);
    CHECK(offsetof(dlpack::ManagedTensor, deleter) == 56);
    CHECK(offsetof(dlpack::ManagedTensorVersioned, array) == 32);
    const Tensor back = from_dlpack(lent);
    CHECK(same_bits(back, x));
    CHECK(back.raw_data() == x.raw_data());
  }
}

TEST_CASE("what another library gives is shared and given back once, by the last tensor", "[dlpack]") {
  Plain theirs;
  {
    Tensor row;
    {
      const Tensor x = from_dlpack(&theirs.managed);
      CHECK(same_bits(x, tensor({{1, 2, 3}, {4, 5, 6}}).to(f32)));
      theirs.data[4] = 50;
      row = x[1];
    }
    CHECK(theirs.returned == 0);
    CHECK(row.to_vector<float>() == std::vector<float>{4, 50, 6});
    row.fill_(9);
    CHECK(theirs.data[5] == 9);
    Tensor leaf = row.clone().requires_grad_();
    (leaf * row).sum().backward();  // saved for backward, then dropped
  }
  CHECK(theirs.returned == 1);

  Theirs<dlpack::ManagedTensorVersioned> newer;
  newer.managed.array.strides = nullptr;
  newer.managed.array.byte_offset = 8;
  newer.managed.array.ndim = 1;
  newer.shape = {4};
  newer.managed.array.shape = newer.shape.data();
  CHECK(from_dlpack(&newer.managed).to_vector<float>() == std::vector<float>{3, 4, 5, 6});
  CHECK(newer.returned == 1);
  const Tensor x = arange(6).reshape({2, 3});
  CHECK(same_bits(from_dlpack(to_dlpack_versioned(x.t())), x.t()));

  Plain kept;  // nobody to call
  kept.managed.deleter = nullptr;
  CHECK(from_dlpack(&kept.managed).numel() == 6);
  for (const Dims& sizes : {Dims{}, Dims{0, 3}, Dims{1, 1, 1, 1, 1, 1, 1, 2}})
    CHECK(from_dlpack(to_dlpack(ones(sizes))).sizes() == sizes);
}

TEST_CASE("tensors of a device keep their device", "[dlpack]") {
  for (const Device device : devices()) {
    const Tensor x = (arange(6).reshape({2, 3}).to(f32).to(device) * 2.0).t();
    auto* const lent = to_dlpack(x);
    CHECK(lent->array.device.type == (device.is_cpu() ? 1 : 2));
    CHECK(lent->array.device.id == device.index);
    CHECK(lent->array.data == x.raw_data());
    const Tensor back = from_dlpack(lent);
    CHECK(back.device() == device);
    CHECK(same_bits((back + 1.0).to(cpu), (x + 1.0).to(cpu)));
    Plain theirs;
    theirs.managed.array.device = {3, 0};  // pinned memory of the host
    CHECK(from_dlpack(&theirs.managed).device() == cpu);
  }
}

TEST_CASE("what no tensor is, is refused, and stays its owner's", "[dlpack]") {
  const auto refused = [](const char* why, auto change) {
    Plain theirs;
    change(theirs.managed.array);
    CHECK_THROWS_WITH(from_dlpack(&theirs.managed), Contains(why));
    CHECK(theirs.returned == 0);
  };
  refused("type code 5, 64 bits", [](auto& a) { a.dtype = {5, 64, 1}; });
  refused("type code 0, 8 bits", [](auto& a) { a.dtype = {0, 8, 1}; });
  refused("4 lanes", [](auto& a) { a.dtype = {2, 32, 4}; });
  refused("devices of type 8", [](auto& a) { a.device = {8, 0}; });
  refused("at most 8 dimensions, got 9", [](auto& a) { a.ndim = 9; });
  refused("at most 8 dimensions, got -1", [](auto& a) { a.ndim = -1; });
  refused("without a shape", [](auto& a) { a.shape = nullptr; });
  refused("dimension 1 has the size -3", [](auto& a) { a.shape[1] = -3; });
  refused("stride -1; negative ones", [](auto& a) { a.strides[1] = -1; });
  refused("reach beyond all memory", [](auto& a) { a.strides[0] = INT64_MAX, a.shape[0] = 3; });
  refused("more than 128 TiB", [](auto& a) { a.strides[0] = INT64_MAX / 2; });
  refused("no memory is given", [](auto& a) { a.data = nullptr; });
  refused("not aligned", [](auto& a) { a.byte_offset = 2; });
  if (!cuda_is_available()) refused("there is no cuda:0 here", [](auto& a) { a.device = {2, 0}; });
  Theirs<dlpack::ManagedTensorVersioned> newer;
  newer.managed.version = {2, 0};
  CHECK_THROWS_WITH(from_dlpack(&newer.managed), Contains("version 2.0 of DLPack is not known"));
  CHECK(newer.returned == 0);
  CHECK_THROWS_WITH(from_dlpack(static_cast<dlpack::ManagedTensor*>(nullptr)), Contains("null pointer"));
  CHECK_THROWS_WITH(to_dlpack(ones(3).requires_grad_()), Contains("give x.detach()"));
  CHECK_THROWS_WITH(to_dlpack(Tensor()), Contains("undefined"));
}
