// SPDX-License-Identifier: Apache-2.0
// Products with a matrix in compressed sparse rows and events, on the CPU. Sums are made in double or float, and the result
// has their type. Indices are read as unsigned numbers: no sign is extended, and a negative one is above all sizes.
// Out-of-range indices are ignored, and pointers are clipped to the stored elements.
#define BE_CPU_HALF
#include <algorithm>
#include <type_traits>

#include "brainevent/common.h"

namespace {

constexpr int64_t kListed = 512;   // events that are listed before their rows are added
constexpr int64_t kAhead = 2;      // rows that are fetched ahead of the one that is added
constexpr int64_t kFetched = 256;  // elements of a row that are fetched; of a longer one the processor sees what comes next

// Say whether an element is true; memory that was not of truth values may hold other bytes than 0 and 1.
inline bool is_true(const bool* x) { return *reinterpret_cast<const unsigned char*>(x) != 0; }

template <class W>
using Sum = std::conditional_t<std::is_same_v<W, double>, double, float>;

template <class W, class I, class P>
struct Matrix {
  const W* weights;
  const I* indices;
  const P* indptr;
  int64_t stored;
  uint64_t columns;
  bool one;  // all elements have one weight

  Sum<W> weight(int64_t j) const { return Sum<W>(weights[one ? 0 : j]); }

  int64_t begin_of(int64_t row) const { return std::clamp<int64_t>(indptr[row], 0, stored); }
  int64_t end_of(int64_t row) const { return begin_of(row + 1); }
  std::make_unsigned_t<I> column(int64_t j) const { return std::make_unsigned_t<I>(indices[j]); }

  void fetch(int64_t row) const {
    const int64_t begin = begin_of(row), end = std::min(end_of(row), begin + kFetched);
    for (int64_t j = begin; j < end; j += 64 / sizeof(I)) __builtin_prefetch(indices + j);
    if (!one)
      for (int64_t j = begin; j < end; j += 64 / sizeof(W)) __builtin_prefetch(weights + j);
  }

  void add_row(int64_t row, Sum<W>* out) const {
    const int64_t end = end_of(row);
    if (one) {
      const Sum<W> all = weight(0);
      for (int64_t j = begin_of(row); j < end; ++j)
        if (column(j) < columns) out[column(j)] += all;
    } else {
      for (int64_t j = begin_of(row); j < end; ++j)
        if (column(j) < columns) out[column(j)] += weight(j);
    }
  }

  Sum<W> sum_row(int64_t row, const bool* x) const {
    const int64_t end = end_of(row);
    Sum<W> total = 0;
    int64_t events = 0;
    if (one) {
      for (int64_t j = begin_of(row); j < end; ++j) events += column(j) < columns && is_true(x + column(j));
      if (events) total = events * weight(0);
    } else {
      for (int64_t j = begin_of(row); j < end; ++j) total += column(j) < columns && is_true(x + column(j)) ? weight(j) : Sum<W>(0);
    }
    return total;
  }
};

// Write where x is true, from `start` on, until all of x is seen or the list is full; return how many.
int64_t list_events(const bool* x, int64_t size, int64_t& start, int64_t* places) {
  int64_t found = 0;
  while (start < size && found <= kListed) {
    uint64_t eight = 1;
    const int64_t count = std::min<int64_t>(8, size - start);
    if (count == 8) std::memcpy(&eight, x + start, 8);
    if (eight)
      for (int64_t i = start; i < start + count; ++i) {  // without a branch, as spikes cannot be predicted
        places[found] = i;
        found += is_true(x + i);
      }
    start += count;
  }
  return found;
}

template <class W, class I, class P>
void scatter_rows(const Matrix<W, I, P>& matrix, const bool* x, int64_t rows, Sum<W>* out, int64_t width) {
  std::fill(out, out + width, Sum<W>(0));
  int64_t places[kListed + 9];
  for (int64_t start = 0; start < rows;) {
    const int64_t found = list_events(x, rows, start, places);
    for (int64_t k = 0; k < found; ++k) {
      if (k + 2 * kAhead < found) __builtin_prefetch(matrix.indptr + places[k + 2 * kAhead]);
      if (k + kAhead < found) matrix.fetch(places[k + kAhead]);
      matrix.add_row(places[k], out);
    }
  }
}

// Call `use` with the matrix, of a number of columns, in its types.
template <class Use>
void with_matrix(const BE::Tensor& weights, const BE::Tensor& indices, const BE::Tensor& indptr, int64_t columns, Use use) {
  BE_DISPATCH_FLOATING_AND_HALF(weights.dtype(), W, {
    BE_DISPATCH_SIGNED_INDEX(indices.dtype(), I, {
      BE_DISPATCH_CSR_INDPTR(indptr.dtype(), P, {
        use(Matrix<W, I, P>{weights.data_ptr<W>(), indices.data_ptr<I>(), indptr.data_ptr<P>(),
                            indices.numel(), uint64_t(columns), weights.numel() == 1},
            Sum<W>());
      });
    });
  });
}

}  // namespace

// @BE scatter arg arg arg arg ret
void scatter(const BE::Tensor weights, const BE::Tensor indices, const BE::Tensor indptr, const BE::Tensor x,
             BE::Tensor out) {
  with_matrix(weights, indices, indptr, out.numel(), [&](const auto& matrix, auto zero) {
    scatter_rows(matrix, x.data_ptr<bool>(), x.numel(), out.data_ptr<decltype(zero)>(), out.numel());
  });
}

// @BE gather arg arg arg arg ret
void gather(const BE::Tensor weights, const BE::Tensor indices, const BE::Tensor indptr, const BE::Tensor x,
            BE::Tensor out) {
  with_matrix(weights, indices, indptr, x.numel(), [&](const auto& matrix, auto zero) {
    for (int64_t row = 0; row < out.numel(); ++row)
      out.data_ptr<decltype(zero)>()[row] = matrix.sum_row(row, x.data_ptr<bool>());
  });
}
