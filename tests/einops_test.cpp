// Dimensions by name: against the views and reductions that a pattern stands for.
#include "core/einops.h"

#include "autograd/backward.h"
#include "core/operators.h"
#include "core/ops.h"
#include "core/random.h"
#include "tests/testing.h"

using namespace mantissa;
using test::message_of;

TEST_CASE("rearrange splits, permutes and merges dimensions") {
  const Tensor x = arange(2 * 6 * 4).view(2, 6, 4);
  CHECK(equal(rearrange(x, "a b c -> a b c"), x));
  CHECK(equal(rearrange(x, "a b c->c a b"), x.permute(2, 0, 1)));
  CHECK(equal(rearrange(x, "a b c -> (a b c)"), x.flatten()));
  CHECK(equal(rearrange(x, "a b c -> (c a) b"), x.permute(2, 0, 1).reshape(8, 6)));
  CHECK(equal(rearrange(x, "b t (heads d) -> b heads t d", {{"heads", 2}}), x.view(2, 6, 2, 2).transpose(1, 2)));
  CHECK(equal(rearrange(x, "b (h w) c -> b c h w", {{"w", 3}}), x.view(2, 2, 3, 4).permute(0, 3, 1, 2)));
  CHECK(equal(rearrange(x, "a b c -> a 1 b c ()"), x.view(2, 1, 6, 4, 1)));
  CHECK(equal(rearrange(x.unsqueeze(1), "a 1 b c -> a (c 1 b)"), x.transpose(1, 2).reshape(2, 24)));
  CHECK(equal(rearrange(x, "a ... -> ... a"), x.permute(1, 2, 0)));
  CHECK(equal(rearrange(x, "... c -> ( ... ) c"), x.view(12, 4)));
  CHECK(
      equal(rearrange(x, "... (c d) -> (d ...) c", {{"c", 2}}), x.view(2, 6, 2, 2).permute(3, 0, 1, 2).reshape(24, 2)));
  CHECK(equal(rearrange(x, "a b c ... -> ... c b a"), x.permute(2, 1, 0)));
  CHECK(rearrange(scalar(3), "-> 1").sizes() == Dims{1});
  CHECK(rearrange(zeros({0, 4}), "a (b c) -> b (a c)", {{"b", 2}}).sizes() == Dims{2, 0});
  CHECK(rearrange(x, "a b c -> a c b").storage().get() == x.storage().get());  // a view
}

TEST_CASE("reduce removes what is on the left alone; repeat adds what is on the right alone") {
  const Tensor x = arange(2 * 4 * 6, TensorOptions{.dtype = f32}).view(2, 4, 6);
  const Tensor pairs = x.view(2, 2, 2, 2, 3);
  CHECK(equal(reduce(x, "b (h 2) (w 3) -> b h w", "sum"), pairs.sum({2, 4})));
  CHECK(equal(reduce(x, "b (h p) (w q) -> h w b", "max", {{"p", 2}, {"q", 3}}), pairs.amax({2, 4}).permute(1, 2, 0)));
  CHECK(equal(reduce(x, "b ... -> b", "mean"), x.mean({1, 2})));
  CHECK(equal(reduce(x, "b t c -> b 1 c", "min"), x.amin({1}, true)));
  CHECK(equal(reduce(x, "b t c -> ", "prod"), x.prod()));
  CHECK(equal(reduce(x > 5, "b t c -> b", "any"), any(x > 5, {1, 2})));
  CHECK(equal(reduce(x > 5, "b t c -> b", "all"), all(x > 5, {1, 2})));
  CHECK(equal(reduce(x, "b t c -> c t b", "sum"), x.permute(2, 1, 0)));  // nothing to reduce

  CHECK(equal(repeat(x, "b t c -> b t c 3"), x.unsqueeze(-1).expand(2, 4, 6, 3)));
  CHECK(equal(repeat(x, "b t c -> b (t n) c", {{"n", 2}}), x.repeat_interleave(2, 1)));
  CHECK(equal(repeat(x, "b t c -> b (n t) c", {{"n", 2}}), x.repeat(1, 2, 1)));
  CHECK(equal(repeat(x[0][0], "c -> b 1 c", {{"b", 5}}), x[0][0].expand(5, 1, 6)));
}

TEST_CASE("einops: gradients flow through patterns") {
  const Tensor x = randn({2, 4, 6}, {.requires_grad = true}), w = randn({3, 2, 2});
  const Tensor y = reduce(rearrange(x, "b (h p) c -> (b c) h p", {{"p", 2}}), "(n 4) h p -> n h p", "mean") * w;
  backward(repeat(y, "n h p -> n h p 5").sum());
  const Tensor expected = rearrange(repeat(w, "n h p -> (n 4) h p"), "(b c) h p -> b (h p) c", {{"b", 2}}) * (5.0 / 4);
  CHECK(allclose(x.grad(), expected));
}

TEST_CASE("einops: errors quote the pattern") {
  const Tensor x = zeros({2, 6, 4});
  const auto says = [&](std::string_view pattern, NamedSizes sizes = {}) {
    return message_of([&] { rearrange(x, pattern, sizes); });
  };
  CHECK(says("a b c -> a b") == "rearrange: c is on the left side alone, in \"a b c -> a b\"");
  CHECK(says("a b c -> a b c d") == "rearrange: d is on the right side alone, in \"a b c -> a b c d\"");
  CHECK(says("a b -> b a") == "rearrange: the left side has 2 dimensions, the tensor 3, in \"a b -> b a\"");
  CHECK(says("a b c d ... -> a") == "rearrange: the left side has 4 dimensions, the tensor 3, in \"a b c d ... -> a\"");
  CHECK(says("a (b c) d -> a b c d") == "rearrange: sizes of both b and c are missing, in \"a (b c) d -> a b c d\"");
  CHECK(says("a (b c) d -> a b c d", {{"b", 4}}) ==
        "rearrange: dimension 1 of f32[2, 6, 4] is not a multiple of 4, in \"a (b c) d -> a b c d\"");
  CHECK(says("a b c -> c b a", {{"a", 3}}) == "rearrange: dimension 0 of f32[2, 6, 4] is not 3, in \"a b c -> c b a\"");
  CHECK(says("a b c -> c b a", {{"z", 3}}) ==
        "rearrange: a size of z is given, which does not occur, in \"a b c -> c b a\"");
  CHECK(says("a b c -> c b a", {{"a", 2}, {"a", 2}}) == "rearrange: a is given twice, in \"a b c -> c b a\"");
  CHECK(says("a b c -> c b a", {{"a", 0}}) == "rearrange: size 0 of a, in \"a b c -> c b a\"");
  CHECK(says("a b c") == "rearrange: a pattern has one ->, in \"a b c\"");
  CHECK(says("a a c -> a c") == "rearrange: a occurs twice on a side, in \"a a c -> a c\"");
  CHECK(says("a ((b) c) d -> a b c d") == "rearrange: ( within ( ), in \"a ((b) c) d -> a b c d\"");
  CHECK(says("a b) c -> a b c") == "rearrange: ) without (, in \"a b) c -> a b c\"");
  CHECK(says("a (b c -> a b c") == "rearrange: ( without ), in \"a (b c -> a b c\"");
  CHECK(says("a b, c -> a b c") == "rearrange: unexpected ,, in \"a b, c -> a b c\"");
  CHECK(says("a b .. -> a b") == "rearrange: unexpected .., in \"a b .. -> a b\"");
  CHECK(says("a b 3x -> a b") == "rearrange: unexpected 3x, in \"a b 3x -> a b\"");
  CHECK(says("a b 4 -> a b") == "rearrange: 4 is on the left side alone, in \"a b 4 -> a b\"");
  CHECK(says("a ... -> a") == "rearrange: ... is on the left side alone, in \"a ... -> a\"");
  CHECK(says("(a ...) -> a ...") == "rearrange: ... within ( ) on the left, in \"(a ...) -> a ...\"");
  CHECK(says("a b c -> a b c ...") == "rearrange: ... on the right alone, in \"a b c -> a b c ...\"");
  CHECK(says("... -> (...) ...") == "rearrange: ... occurs twice on a side, in \"... -> (...) ...\"");
  constexpr std::int64_t huge = std::int64_t{1} << 32;
  CHECK(says("a (b c d) e -> a b c d e", {{"b", huge}, {"c", huge}}) ==
        "rearrange: the sizes within dimension 1 are too large, in \"a (b c d) e -> a b c d e\"");
  CHECK_THAT(message_of([&] { repeat(x, "a b c -> (a n m) b c", {{"n", huge}, {"m", huge}}); }),
             Catch::Matchers::Contains("more elements than fit"));
  CHECK(message_of([&] { repeat(x, "a b c -> a b c n"); }) ==
        "repeat: the size of n is missing, in \"a b c -> a b c n\"");
  CHECK(message_of([&] { reduce(x, "a b c -> a", "median"); }) ==
        "reduce: \"median\" is none of sum, mean, prod, min, max, any, all");
  CHECK_THAT(message_of([&] { rearrange(Tensor(), "a -> a"); }), Catch::Matchers::Contains("undefined"));
}
