// A user's first program: the gradient of sum(x * x) is 2x.
#include <mantissa/mantissa.h>

#include <iostream>

// Names that a program may well have for something of its own.
using namespace mantissa;
struct In { int begin; };
struct Out { int end; };
struct Shape { int height, width; };

int main() {
  const Shape shape{In{1}.begin, Out{2}.end};
  if (shape.height + shape.width != 3) return 2;
  mantissa::Tensor x = mantissa::tensor({1.5, 2.0});
  x.requires_grad_();
  mantissa::square(x).sum().backward();
  std::cout << x.grad() << '\n';
  return x.grad()[0].item() == 3 ? 0 : 1;
}
