// Location-scale distributions other than the normal. Read nn/distributions.h first.
#pragma once

#include "nn/distribution.h"

namespace mantissa::distributions {

struct Laplace : Reparameterized<Laplace> {
  Laplace(const Parameter& loc, const Parameter& scale);  // scale > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor cdf(const Tensor& value) const;
  Tensor icdf(const Tensor& probability) const;
  Tensor entropy() const;
  Tensor mean() const { return loc; }
  Tensor mode() const { return loc; }
  Tensor variance() const;
  Tensor loc, scale;
};

struct Cauchy : Reparameterized<Cauchy> {                // Student's t with one degree of freedom
  Cauchy(const Parameter& loc, const Parameter& scale);  // scale > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor cdf(const Tensor& value) const;
  Tensor icdf(const Tensor& probability) const;
  Tensor entropy() const;
  Tensor mean() const;  // NaN: undefined
  Tensor mode() const { return loc; }
  Tensor variance() const;  // infinite
  Tensor loc, scale;
};

struct HalfCauchy : Reparameterized<HalfCauchy> {  // |x| for x ~ Cauchy(0, scale)
  explicit HalfCauchy(const Parameter& scale);     // scale > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;  // -infinity below 0
  Tensor cdf(const Tensor& value) const;
  Tensor icdf(const Tensor& probability) const;
  Tensor entropy() const;
  Tensor mean() const;  // infinite, like the variance
  Tensor mode() const;
  Tensor variance() const;
  Tensor scale;
};

struct Gumbel : Reparameterized<Gumbel> {
  Gumbel(const Parameter& loc, const Parameter& scale);  // scale > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor cdf(const Tensor& value) const;
  Tensor icdf(const Tensor& probability) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor mode() const { return loc; }
  Tensor variance() const;
  Tensor loc, scale;
};

// loc + scale * t, with df degrees of freedom. The mean is NaN for df <= 1; the variance is infinite for 1 < df <= 2
// and NaN for df <= 1.
struct StudentT : Reparameterized<StudentT> {
  explicit StudentT(const Parameter& df, const Parameter& loc = 0, const Parameter& scale = 1);  // df, scale > 0
  Tensor rsample(const Dims& shape = {}) const;
  Tensor log_prob(const Tensor& value) const;
  Tensor entropy() const;
  Tensor mean() const;
  Tensor mode() const { return loc; }
  Tensor variance() const;
  Tensor df, loc, scale;
};

}  // namespace mantissa::distributions
