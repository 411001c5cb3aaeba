#include <mantissa/mantissa.h>
#include <mantissa/core/version.h>

#include <iostream>

int main() {
  std::cout << "built with Mantissa " << MANTISSA_VERSION_MAJOR << '.' << MANTISSA_VERSION_MINOR << '\n';
}
