// Abseil's flat_hash_map and Boost's unordered_flat_map, with the loops that are timed.
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <absl/container/flat_hash_map.h>
#include <boost/unordered/unordered_flat_map.hpp>

namespace {

template <size_t W>
struct Key {
  uint64_t words[W];

  friend bool operator==(const Key &a, const Key &b) { return memcmp(&a, &b, sizeof a) == 0; }

  // Abseil's own hash.
  template <typename H>
  friend H AbslHashValue(H state, const Key &key) {
    return H::combine_contiguous(std::move(state), key.words, W);
  }
};

struct State {
  uint64_t words[4];
};

// The multiplications of foldhash, which hashbrown has too: boost::hash is weaker and slower.
struct FoldHash {
  using is_avalanching = void;
  uint64_t seeds[2] = {0x243f6a8885a308d3, 0x13198a2e03707344};

  static uint64_t fold(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
  }

  template <size_t W>
  size_t operator()(const Key<W> &key) const {
    uint64_t state = seeds[0];
    for (size_t at = 0; at < W; at += 2)
      state = fold(key.words[at] ^ state, key.words[at + 1] ^ seeds[1]);
    return state;
  }
};

// As for all contenders, a key is prefetched 256 keys before its use.
template <size_t W>
void ask_for(const Key<W> *key) {
  __builtin_prefetch(reinterpret_cast<const char *>(key) + 256 * sizeof *key, 0, 2);
}

// A map behind calls that each take many keys.
struct Map {
  virtual ~Map() = default;
  virtual uint64_t fill(const void *keys, const uint32_t *numbers, uint64_t count) = 0;
  virtual uint64_t read(const void *keys, uint64_t count, uint64_t batch, uint64_t *found) const = 0;
  virtual uint64_t count_packets(const void *keys, uint64_t count) = 0;
  virtual uint64_t exchange(const void *old, const void *fresh, const uint32_t *numbers, uint64_t count) = 0;
  virtual uint64_t iterate() const = 0;
};

template <typename M>
struct Of final : Map {
  using K = typename M::key_type;
  static constexpr bool prefetches = std::is_same_v<M, absl::flat_hash_map<K, State>>;
  M map;

  explicit Of(uint64_t capacity) { map.reserve(capacity); }

  uint64_t fill(const void *from, const uint32_t *numbers, uint64_t count) override {
    auto *keys = static_cast<const K *>(from);
    for (uint64_t i = 0; i < count; i++) {
      ask_for(&keys[i]);
      map.try_emplace(keys[i], State{{numbers[i], 0, 0, 0}});
    }
    return map.size();
  }

  // A batch of Abseil is prefetched, then looked up.
  uint64_t read(const void *from, uint64_t count, uint64_t batch, uint64_t *found) const override {
    auto *keys = static_cast<const K *>(from);
    uint64_t sum = 0, hits = 0;
    for (uint64_t begin = 0; begin < count; begin += batch) {
      uint64_t end = begin + batch < count ? begin + batch : count;
      for (uint64_t i = begin; i < end; i++) {
        ask_for(&keys[i]);
        if constexpr (prefetches)
          if (batch > 1) map.prefetch(keys[i]);
      }
      for (uint64_t i = begin; i < end; i++) {
        auto at = map.find(keys[i]);
        if (at != map.end()) sum += at->second.words[0], hits++;
      }
    }
    *found = hits;
    return sum;
  }

  uint64_t count_packets(const void *from, uint64_t count) override {
    auto *keys = static_cast<const K *>(from);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
      ask_for(&keys[i]);
      State &state = map.try_emplace(keys[i], State{}).first->second;
      state.words[1]++;
      sum += state.words[0];
    }
    return sum;
  }

  uint64_t exchange(const void *out, const void *in, const uint32_t *numbers, uint64_t count) override {
    auto *old = static_cast<const K *>(out), *fresh = static_cast<const K *>(in);
    uint64_t done = 0;
    for (uint64_t i = 0; i < count; i++) {
      ask_for(&old[i]);
      ask_for(&fresh[i]);
      bool removed = map.erase(old[i]) == 1;
      done += map.try_emplace(fresh[i], State{{numbers[i], 0, 0, 0}}).second && removed;
    }
    return done;
  }

  uint64_t iterate() const override {
    uint64_t sum = 0;
    for (const auto &flow : map) sum += flow.second.words[0];
    return sum;
  }
};

template <size_t W>
Map *made(bool is_abseil, uint64_t capacity) {
  if (is_abseil) return new Of<absl::flat_hash_map<Key<W>, State>>(capacity);
  return new Of<boost::unordered_flat_map<Key<W>, State, FoldHash>>(capacity);
}

}  // namespace

extern "C" {

// Null for keys of another number of words than 2 and 6.
Map *flowloom_flat_new(bool is_abseil, uint32_t words, uint64_t capacity) {
  return words == 2 ? made<2>(is_abseil, capacity) : words == 6 ? made<6>(is_abseil, capacity) : nullptr;
}

void flowloom_flat_free(Map *map) { delete map; }

uint64_t flowloom_flat_fill(Map *map, const void *keys, const uint32_t *numbers, uint64_t count) {
  return map->fill(keys, numbers, count);
}

uint64_t flowloom_flat_read(const Map *map, const void *keys, uint64_t count, uint64_t batch, uint64_t *found) {
  return map->read(keys, count, batch, found);
}

uint64_t flowloom_flat_count(Map *map, const void *keys, uint64_t count) { return map->count_packets(keys, count); }

uint64_t flowloom_flat_exchange(Map *map, const void *old, const void *fresh, const uint32_t *numbers,
                                uint64_t count) {
  return map->exchange(old, fresh, numbers, count);
}

uint64_t flowloom_flat_iterate(const Map *map) { return map->iterate(); }

}
