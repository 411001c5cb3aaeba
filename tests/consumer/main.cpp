// A user's first program: the gradient of sum(x * x) is 2x.
#include <mantissa/mantissa.h>

#include <iostream>

int main() {
  mantissa::Tensor x = mantissa::tensor({1.5, 2.0});
  x.requires_grad_();
  mantissa::square(x).sum().backward();
  std::cout << x.grad() << '\n';
  return x.grad()[0].item() == 3 ? 0 : 1;
}
