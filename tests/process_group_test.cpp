// Process groups: collective results, bitwise; and the error that each rank gets when something is wrong. Ranks are
// threads here; tests/mantissa_run_test.sh uses processes.
#include "io/process_group.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <future>

#include "catch_compat.h"
#include "core/ops.h"
#include "core/random.h"
#include "ranks.h"
#include "testing.h"

using namespace mantissa;
using namespace mantissa::test;
using namespace mantissa::distributed;
using Catch::Matchers::Contains;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// The input of rank r: numbers of both signs and several magnitudes, different for each rank.
Tensor input_of(int rank, const Dims& sizes, Dtype dtype) {
  const std::int64_t n = numel_of(sizes);
  std::vector<double> v(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    const double x =
        std::sin(static_cast<double>(i * 7 + rank * 131 + 1)) * std::exp(static_cast<double>((i + rank) % 5));
    v[static_cast<std::size_t>(i)] = is_floating(dtype) ? x : std::floor(std::abs(x));
  }
  Tensor t = from_data<double>(v, sizes);
  return dtype == boolean ? t.to(i64) == Tensor(1) : t.to(dtype);
}

// In rank order; f16 and bf16 in f32.
Tensor expected_reduction(int ranks, const Dims& sizes, Dtype dtype, ReduceOp op) {
  const Dtype wide = is_half(dtype) ? f32 : dtype == boolean ? u8 : dtype;
  Tensor sum = input_of(0, sizes, dtype).to(wide);
  for (int r = 1; r < ranks; ++r) {
    const Tensor x = input_of(r, sizes, dtype).to(wide);
    sum = op == ReduceOp::max ? maximum(sum, x) : op == ReduceOp::min ? minimum(sum, x) : sum + x;
  }
  if (op == ReduceOp::mean) sum = sum / full({}, ranks, {.dtype = wide});
  return sum.to(dtype);
}

}  // namespace

TEST_CASE("all_reduce sums in the order of the ranks, in every dtype and size") {
  const int ranks = GENERATE(1, 2, 3, 4);
  const std::string error = error_of_ranks(ranks, [&](ProcessGroup& group) {
    for (const Dtype dtype : {f64, f32, f16, bf16, i64, i32, u8, boolean}) {
      for (const Dims& sizes : {Dims{}, Dims{0}, Dims{5}, Dims{3, 7, 11}, Dims{16411}, Dims{300007}}) {
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min}) {
          if (dtype == boolean && op < ReduceOp::max) continue;
          if (op == ReduceOp::mean && !is_floating(dtype)) continue;
          if (numel_of(sizes) > 100000 && op != ReduceOp::sum && op != ReduceOp::mean) continue;
          const Tensor x = input_of(group.rank(), sizes, dtype);
          group.all_reduce(x, op);
          check(same_bits(x, expected_reduction(ranks, sizes, dtype, op)), "rank ", group.rank(), ": ", name_of(op),
                " of ", x, " is wrong");
        }
      }
    }
  });
  CHECK(error == "");
}

TEST_CASE("NaN and infinity of one rank reach all") {
  const std::string error = error_of_ranks(3, [](ProcessGroup& group) {
    for (const Dtype dtype : {f64, f32, f16, bf16}) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min}) {
        const Tensor x = ones({40000}, {.dtype = dtype});
        if (group.rank() == 1) x.slice(0, 0, 1).fill_(NAN), x.slice(0, 30001, 30002).fill_(NAN);
        if (group.rank() == 2 && op < ReduceOp::max) x.slice(0, 7, 8).fill_(INFINITY);
        group.all_reduce(x, op);
        const std::vector<double> v = x.to_vector<double>();
        check(std::isnan(v[0]) && std::isnan(v[30001]), name_of(op), " of ", x, " loses a NaN");
        check(op >= ReduceOp::max || v[7] == INFINITY, name_of(op), " of ", x, " loses an infinity");
      }
    }
  });
  CHECK(error == "");
}

TEST_CASE("How tensors are grouped into calls does not change a bit") {
  const std::string error = error_of_ranks(3, [](ProcessGroup& group) {
    std::vector<Tensor> together, alone;
    for (const std::int64_t n : {0, 1, 100, 70000, 3, 50000}) {
      together.push_back(input_of(group.rank(), {n}, f32));
      alone.push_back(together.back().clone());
    }
    group.all_reduce(together, ReduceOp::mean);
    for (const Tensor& x : alone) group.all_reduce(x, ReduceOp::mean);
    for (std::size_t i = 0; i < alone.size(); ++i)
      check(same_bits(together[i], alone[i]), "tensor ", static_cast<int>(i));
  });
  CHECK(error == "");
}

TEST_CASE("reduce, gather, scatter and all_to_all") {
  const int ranks = GENERATE(1, 2, 3, 5);
  const std::string error = error_of_ranks(ranks, [&](ProcessGroup& group) {
    const int me = group.rank();
    for (const Dims& sizes : {Dims{}, Dims{0}, Dims{4, 5}, Dims{200003}}) {
      Dims all_sizes = sizes;
      all_sizes.insert(0, ranks);
      for (int root = 0; root < ranks; ++root) {
        const Tensor x = input_of(me, sizes, bf16), before = x.clone();
        group.reduce(x, ReduceOp::sum, root);
        check(same_bits(x, me == root ? expected_reduction(ranks, sizes, bf16, ReduceOp::sum) : before), "reduce at ",
              root);
        const Tensor all = group.gather(before, root);
        check(all.defined() == (me == root), "gather at ", root);
        for (int r = 0; r < ranks && all.defined(); ++r)
          check(same_bits(all.select(0, r), input_of(r, sizes, bf16)), "gather at ", root, ", rank ", r);
        const Tensor parts = input_of(root + 9, all_sizes, f32), part = empty(sizes);
        group.scatter(part, me == root ? parts : Tensor(), root);
        check(same_bits(part, parts.select(0, me)), "scatter from ", root);
      }
      const Tensor all = group.all_to_all(input_of(me, all_sizes, i64));
      for (int r = 0; r < ranks; ++r)
        check(same_bits(all.select(0, r), input_of(r, all_sizes, i64).select(0, me)), "all_to_all, rank ", r);
    }
    // into a column of something larger
    const Tensor whole = zeros({6, 3});
    group.scatter(whole.slice(1, 1, 2).squeeze(1), me == 0 ? input_of(3, {ranks, 6}, f32) : Tensor());
    check(same_bits(whole.slice(1, 1, 2).squeeze(1), input_of(3, {ranks, 6}, f32).select(0, me)), "strided");
  });
  CHECK(error == "");
}

TEST_CASE("messages between two ranks, also around a ring and among other calls") {
  const int ranks = GENERATE(2, 3, 5);
  const std::string error = error_of_ranks(ranks, [&](ProcessGroup& group) {
    const int me = group.rank(), next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    for (const Dims& sizes : {Dims{}, Dims{0}, Dims{4, 5}, Dims{900001}}) {  // the last is more than a socket holds
      // all at once, large or small
      const Tensor out = input_of(me, sizes, f32), in = empty(sizes);
      const ProcessGroup::Message send{out, next}, receive{in, before};
      group.exchange(std::span(&send, 1), std::span(&receive, 1));
      check(same_bits(in, input_of(before, sizes, f32)), "around the ring");
      // as a chain: each adds itself
      Tensor sum = zeros(sizes, {.dtype = f64});
      if (me > 0) group.receive(sum, me - 1);
      sum.add_(ones(sizes, {.dtype = f64}));
      if (me + 1 < ranks) group.send(sum, me + 1);
      check(same_bits(sum, full(sizes, me + 1.0, {.dtype = f64})), "along the chain");
      group.barrier();
      // several to one, of several shapes, received in the order of the ranks
      if (me != 0) {
        group.send(input_of(me, {me, 3}, f16), 0);
        group.send(input_of(me, {2}, i32), 0);
      } else {
        for (int r = 1; r < ranks; ++r) {
          const Tensor a = empty({r, 3}, {.dtype = f16}), b = empty({2}, {.dtype = i32});
          group.receive(a, r);
          group.receive(b, r);
          check(same_bits(a, input_of(r, {r, 3}, f16)) && same_bits(b, input_of(r, {2}, i32)), "from rank ", r);
        }
      }
      group.all_reduce(out);
      check(same_bits(out, expected_reduction(ranks, sizes, f32, ReduceOp::sum)), "a call of all among messages");
    }
  });
  CHECK(error == "");
}

TEST_CASE("messages that do not fit, and ranks that are not there") {
  const std::vector<std::string> shapes = errors_of_ranks(2, [](ProcessGroup& group) {
    if (group.rank() == 0) group.send(zeros({3}), 1);
    else group.receive(zeros({4}), 0);
    group.barrier();
  });
  CHECK_THAT(shapes[1], Contains("rank 1 waits for a message from rank 0 of f32[4], but rank 0 calls a message from "
                                 "rank 0 of f32[3]"));
  CHECK_THAT(shapes[0], Contains("rank 1 waits for a message"));  // in its next call
  const std::vector<std::string> calls = errors_of_ranks(2, [](ProcessGroup& group) {
    if (group.rank() == 0) group.all_reduce(zeros({3}));
    else group.receive(zeros({3}), 0);
  });
  for (const std::string& e : calls)
    CHECK_THAT(e, Contains("rank 1 waits for a message from rank 0 of f32[3], but rank 0 calls all_reduce (sum) of "
                           "f32[3]"));
  const std::string error = error_of_ranks(2, [](ProcessGroup& group) {
    const auto message_of = [](auto&& f) -> std::string {
      try {
        f();
      } catch (const Error& e) { return e.what(); }
      return "";
    };
    const Tensor x = zeros({3});
    const auto says = [](const std::string& message, const char* part) {
      check(message.find(part) != message.npos, "\"", message, "\" does not say \"", part, "\"");
    };
    says(message_of([&] { group.send(x, 2); }), "send: there is no rank 2 in a group of 2");
    says(message_of([&] { group.receive(x, group.rank()); }), "messages are for other ranks");
    says(message_of([&] { group.all_to_all(zeros({3, 2})); }), "all_to_all: the first size of");
    says(message_of([&] { group.scatter(x, group.rank() == 0 ? Tensor() : zeros({2, 3})); }), "rank 0 gives the parts");
    if (group.rank() == 0) says(message_of([&] { group.scatter(x, zeros({2, 4})); }), "does not fit");
    says(message_of([&] { group.gather(x, -1); }), "gather: there is no rank -1");
    group.barrier();  // nothing of this has hurt the group
  });
  CHECK(error == "");
}

TEST_CASE("broadcast, all_gather, reduce_scatter and barrier") {
  const int ranks = GENERATE(1, 2, 3, 5);
  std::atomic<int> arrived{0};
  const std::string error = error_of_ranks(ranks, [&](ProcessGroup& group) {
    for (const Dims& sizes : {Dims{}, Dims{0}, Dims{4, 5}, Dims{200003}}) {
      for (int root = 0; root < ranks; ++root) {
        const Tensor x = input_of(group.rank(), sizes, f32);
        group.broadcast(x, root);
        check(same_bits(x, input_of(root, sizes, f32)), "broadcast from ", root, " of ", x);
      }
      const Tensor all = group.all_gather(input_of(group.rank(), sizes, f16));
      for (int r = 0; r < ranks; ++r)
        check(same_bits(all.select(0, r), input_of(r, sizes, f16)), "all_gather of ", all, ", rank ", r);
    }
    for (const std::int64_t n : {0, 3, 60000}) {
      const Tensor x = input_of(group.rank(), {n * ranks, 2}, f32), before = x.clone();
      const Tensor part = group.reduce_scatter(x, ReduceOp::mean);
      const Tensor whole = expected_reduction(ranks, {n * ranks, 2}, f32, ReduceOp::mean);
      check(same_bits(part, whole.slice(0, n * group.rank(), n * (group.rank() + 1))), "reduce_scatter of ", x);
      check(same_bits(x, before), "reduce_scatter writes to its argument");
    }
    // strided tensors are reduced in place
    const Tensor whole = input_of(group.rank(), {50, 60}, f32), columns = whole.slice(1, 0, 60, 7);
    group.all_reduce(columns);
    check(same_bits(columns, expected_reduction(ranks, {50, 60}, f32, ReduceOp::sum).slice(1, 0, 60, 7)), "strided");
    check(group.all_reduce(group.rank() + 0.5, ReduceOp::max) == ranks - 0.5, "of a number");
    ++arrived;
    group.barrier();
    check(arrived == ranks, "the barrier lets a rank pass before the last has come");
  });
  CHECK(error == "");
}

TEST_CASE("Bytes travel as well, of each rank another number") {
  const int ranks = GENERATE(1, 3);
  const std::string error = error_of_ranks(ranks, [](ProcessGroup& group) {
    const auto text_of = [](int rank) { return std::string(static_cast<std::size_t>(rank) * 70001, '\0') + "ende"; };
    std::string text = text_of(group.rank());
    const std::vector<std::string> all = group.all_gather(text);
    check(static_cast<int>(all.size()) == group.size(), "one of each rank");
    for (int r = 0; r < group.size(); ++r) check(all[static_cast<std::size_t>(r)] == text_of(r), "of rank ", r);
    group.broadcast(text, group.size() - 1);
    check(text == text_of(group.size() - 1), "what the last rank has");
    text.clear();
    group.broadcast(text);
    check(text.empty(), "nothing");
    check(group.all_gather("") == std::vector<std::string>(static_cast<std::size_t>(group.size())), "nothing of all");
  });
  CHECK(error == "");
}

TEST_CASE("split makes groups of the ranks that give the same color") {
  const std::string error = error_of_ranks(6, [](ProcessGroup& world) {
    const int row = world.rank() / 3, column = world.rank() % 3;
    const auto along = world.split(row), across = world.split(column);
    check(along->size() == 3 && along->rank() == column && across->size() == 2 && across->rank() == row, "wrong ranks");
    if (row == 1) along->barrier();  // which row 0 does not wait for
    for (int round = 0; round < 3; ++round) {
      const Tensor x = full({70000}, world.rank() + 1), y = x.clone(), z = x.clone();
      Work later = world.start_all_reduce({z});
      along->all_reduce(x);
      across->all_reduce(y);
      later.wait();
      check(equal(x, full_like(x, row == 0 ? 6 : 15)), "rank ", world.rank(), ": the sum along its row is wrong");
      check(equal(y, full_like(y, 2 * column + 5)), "rank ", world.rank(), ": the sum along its column is wrong");
      check(equal(z, full_like(z, 21)), "rank ", world.rank(), ": the sum of all is wrong");
    }
    const auto some = world.split(column == 1 ? 0 : -1);
    check((some != nullptr) == (column == 1), "a negative color is in no group");
    if (some) check(equal(some->all_gather(tensor({world.rank()})), tensor({1, 4}).reshape({2, 1})), "wrong members");
    const auto alone = world.split(world.rank());
    check(alone->size() == 1 && alone->all_reduce(2.0, ReduceOp::sum) == 2, "a group of one");
    const auto part = along->split(column == 0 ? 7 : 8);  // a group of a group
    check(part->all_reduce(1.0, ReduceOp::sum) == (column == 0 ? 1 : 2), "a part of a row");
  });
  CHECK(error == "");
}

TEST_CASE("A failure in a smaller group names that group") {
  const std::vector<std::string> errors = errors_of_ranks(4, [](ProcessGroup& world) {
    const auto half = world.split(world.rank() % 2);
    half->all_reduce(zeros({world.rank() == 3 ? 4 : 5}));  // of ranks 1 and 3
    world.barrier();
  });
  for (const std::string& e : errors) {  // the others are told at the barrier
    CHECK_THAT(e, Contains("the group of ranks 1, 3: in call 1 rank 0 calls all_reduce (sum) of f32[5], but rank 1"));
  }
}

TEST_CASE("Background reductions keep their place among the calls") {
  const std::string error = error_of_ranks(3, [](ProcessGroup& group) {
    std::vector<Tensor> xs;
    std::vector<Work> works;
    for (int i = 0; i < 20; ++i) {
      xs.push_back(input_of(group.rank() + i, {1000 * (i + 1)}, f32));
      works.push_back(group.start_all_reduce({xs.back()}));
      if (i % 5 == 0) group.barrier();
    }
    for (std::size_t i = works.size(); i-- > 0;) works[i].wait();
    for (int i = 0; i < 20; ++i) {
      const Tensor sum = input_of(i, {1000 * (i + 1)}, f32) + input_of(i + 1, {1000 * (i + 1)}, f32) +
                         input_of(i + 2, {1000 * (i + 1)}, f32);
      check(same_bits(xs[static_cast<std::size_t>(i)], sum), "reduction ", i);
    }
  });
  CHECK(error == "");
}

TEST_CASE("What differs between ranks is said to all of them, and ends the group") {
  struct Case {
    const char* what;
    std::function<void(ProcessGroup&)> of_rank_1, of_others;
    const char* words[2];
  };
  const auto reduce = [](Dims sizes, Dtype dtype, ReduceOp op = ReduceOp::sum) {
    return [=](ProcessGroup& g) { g.all_reduce(zeros(sizes, {.dtype = dtype}), op); };
  };
  const std::vector<Case> cases = {
      {"shape", reduce({10}, f32), reduce({12}, f32), {"f32[10]", "f32[12]"}},
      {"shape of a long one", reduce({100000}, f32), reduce({100, 1000}, f32), {"f32[100000]", "f32[100, 1000]"}},
      {"dtype", reduce({10}, f64), reduce({10}, f32), {"f64[10]", "f32[10]"}},
      {"operation", reduce({10}, f32, ReduceOp::max), reduce({10}, f32), {"(max)", "(sum)"}},
      {"call", [](ProcessGroup& g) { g.barrier(); }, reduce({10}, f32), {"barrier", "all_reduce"}},
      {"root",
       [](ProcessGroup& g) { g.broadcast(zeros({3}), 1); },
       [](ProcessGroup& g) { g.broadcast(zeros({3}), 2); },
       {"from rank 1", "from rank 2"}},
      {"list",
       [](ProcessGroup& g) {
         g.all_reduce(std::vector{zeros({3}), zeros({4})});
       },
       [](ProcessGroup& g) {
         g.all_reduce(std::vector{zeros({4}), zeros({3})});
       },
       {"2 tensors", "rank 1"}},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    std::vector<std::string> again(3);
    const std::vector<std::string> errors = errors_of_ranks(3, [&](ProcessGroup& g) {
      g.barrier();
      try {
        (g.rank() == 1 ? c.of_rank_1 : c.of_others)(g);
      } catch (const Error&) {
        try {
          g.barrier();
        } catch (const Error& e) { again[static_cast<std::size_t>(g.rank())] = e.what(); }
        throw;
      }
    });
    for (int r = 0; r < 3; ++r) {
      INFO("rank " << r);
      CHECK_THAT(errors[static_cast<std::size_t>(r)],
                 Contains(c.words[0]) && Contains(c.words[1]) && Contains("rank 1 "));
      CHECK_THAT(again[static_cast<std::size_t>(r)], Contains("no further use") && Contains("rank 1 "));
    }
  }
}

TEST_CASE("Arguments that no rank can do anything with are refused before anything is sent") {
  const std::string error = error_of_ranks(2, [](ProcessGroup& g) {
    const auto refuses = [&](const char* word, const std::function<void()>& f) {
      try {
        f();
      } catch (const Error& e) {
        check(std::string(e.what()).find(word) != std::string::npos, "says ", e.what(), ", not ", word);
        return;
      }
      fail("nothing was refused: ", word);
    };
    refuses("undefined", [&] { g.all_reduce(Tensor()); });
    refuses("mean", [&] { g.all_reduce(zeros({2}, {.dtype = i64}), ReduceOp::mean); });
    refuses("any", [&] { g.all_reduce(zeros({2}, {.dtype = boolean}), ReduceOp::sum); });
    refuses("no rank 2", [&] { g.broadcast(zeros({2}), 2); });
    refuses("differ", [&] { g.all_reduce(std::vector{zeros({2}), zeros({2}, {.dtype = f64})}); });
    refuses("divisible", [&] { g.reduce_scatter(zeros({3})); });
    g.barrier();
  });
  CHECK(error == "");
}

TEST_CASE("A rank that ends is named to those that wait for it") {
  const std::vector<std::string> errors = errors_of_ranks(3, [](ProcessGroup& g) {
    g.barrier();
    if (g.rank() == 1) return;
    g.all_reduce(zeros({50000}));
  });
  CHECK(errors[1] == "");
  CHECK_THAT(errors[0], Contains("rank 1 "));
  CHECK_THAT(errors[2], Contains("rank 1 "));
}

TEST_CASE("What one rank gives up for, all are told") {
  const std::vector<std::string> errors = errors_of_ranks(3, [](ProcessGroup& g) {
    if (g.rank() == 2) {
      g.give_up("rank 2 has no more paper");
      fail("itself");
    }
    g.all_reduce(zeros({50000}));
  });
  CHECK_THAT(errors[0], Contains("no more paper"));
  CHECK_THAT(errors[1], Contains("no more paper"));
}

TEST_CASE("A rank that does not come in time is named") {
  std::promise<void> gave_up;
  const std::vector<std::string> errors = errors_of_ranks(
      2,
      [&](ProcessGroup& g) {
        if (g.rank() == 1) return gave_up.get_future().wait();
        try {
          g.all_reduce(zeros({10}));
        } catch (const Error&) {
          gave_up.set_value();
          throw;
        }
        gave_up.set_value();
      },
      [](GroupOptions& o) { o.timeout = milliseconds(100); });
  CHECK_THAT(errors[0], Contains("rank 1 did not come in time"));
}

TEST_CASE("A rank that is missing at the start is named") {
  const std::vector<std::string> errors = errors_of_ranks(
      3, [](ProcessGroup&) {},
      [](GroupOptions& o) {
        o.rendezvous_timeout = milliseconds(o.rank == 0 ? 1500 : 1000);
        if (o.rank == 2) fail("does not come");
      });
  CHECK_THAT(errors[0], Contains("rank 2 did not come in time"));
  CHECK_THAT(errors[1], Contains("rank 1 of 3 did not find the others"));
}

TEST_CASE("The environment is read as torchrun sets it, and mistakes are explained") {
  struct Variables {
    Variables(std::initializer_list<std::pair<const char*, const char*>> v) : set(v) {
      for (auto& [name, value] : set) ::setenv(name, value, 1);
    }
    ~Variables() {
      for (auto& [name, value] : set) ::unsetenv(name);
    }
    std::vector<std::pair<const char*, const char*>> set;
  };
  CHECK(options_from_environment().size == 1);
  {
    const Variables v{{"RANK", "3"},           {"WORLD_SIZE", "4"},           {"MASTER_ADDR", "10.0.0.1"},
                      {"MASTER_PORT", "1234"}, {"MANTISSA_JOB_TOKEN", "abc"}, {"MANTISSA_GROUP_TIMEOUT", "7"}};
    const GroupOptions o = options_from_environment();
    CHECK(o.rank == 3);
    CHECK(o.size == 4);
    CHECK(o.address == "10.0.0.1");
    CHECK(o.port == 1234);
    CHECK(o.timeout == seconds(7));
    CHECK_THROWS_WITH(make_group(o), Contains("32 hexadecimal digits"));
  }
  {
    const Variables v{{"WORLD_SIZE", "4"}};
    CHECK_THROWS_WITH(options_from_environment(), Contains("RANK is not set"));
  }
  {
    const Variables v{{"RANK", "4"}, {"WORLD_SIZE", "4"}};
    CHECK_THROWS_WITH(options_from_environment(), Contains("RANK is 4 of WORLD_SIZE 4"));
  }
  {
    const Variables v{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "http"}};
    CHECK_THROWS_WITH(options_from_environment(), Contains("MASTER_PORT") && Contains("http"));
  }
}
