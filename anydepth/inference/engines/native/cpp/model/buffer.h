// Memory for numbers that begin at a cache line.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace anydepth {

// Uninitialised numbers; growing forgets what was there.
template <class T>
class Buffer {
  public:
    T* at_least(size_t count) {
        if (count > size_) {
            data_.reset(static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t{64})));
            size_ = count;
        }
        return data_.get();
    }
    T* get() const { return data_.get(); }

  private:
    struct Free {
        void operator()(T* p) const { ::operator delete(p, std::align_val_t{64}); }
    };
    std::unique_ptr<T, Free> data_;
    size_t size_ = 0;
};

}  // namespace anydepth
