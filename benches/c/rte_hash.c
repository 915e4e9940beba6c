/* The calls of rte_hash that are timed. Its headers are full of inline functions, so they are compiled here. */
#include <stdint.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_prefetch.h>

#define KEY_WORDS_MAX 8
#define BULK RTE_HASH_LOOKUP_BULK_MAX

int flowloom_dpdk_start(const char *megabytes)
{
	char *arguments[] = {"flowloom", "-l", "0", "--no-pci", "--in-memory", "--no-telemetry",
			     "--log-level", "critical", "-m", (char *)megabytes, NULL};
	return rte_eal_init(10, arguments);
}

struct rte_hash *flowloom_rte_hash_new(const char *name, uint32_t entries, uint32_t key_bytes, uint32_t seed)
{
	struct rte_hash_parameters parameters;

	memset(&parameters, 0, sizeof(parameters));
	parameters.name = name;
	parameters.entries = entries;
	parameters.key_len = key_bytes;
	parameters.hash_func = rte_hash_crc;
	parameters.hash_func_init_val = seed;
	return rte_hash_create(&parameters);
}

void flowloom_rte_hash_free(struct rte_hash *table)
{
	rte_hash_free(table);
}

/* The position of the key, which is where its state is; negative if the table is full. */
int32_t flowloom_rte_hash_add(struct rte_hash *table, const void *key)
{
	return rte_hash_add_key(table, key);
}

int32_t flowloom_rte_hash_delete(struct rte_hash *table, const void *key)
{
	return rte_hash_del_key(table, key);
}

/* Asks for what lies so many bytes behind the first key, which may be beyond the last: an address, but no pointer into the array. */
static void ask_for(const void *keys, uint64_t bytes)
{
	rte_prefetch1((const void *)((uintptr_t)keys + bytes));
}

/* Looks up keys that stand one behind the other, at most 64 at a time, and adds up the first words of their states.
 * Here and below each key is prefetched this many keys ahead of its use, as for every contender. */
uint64_t flowloom_rte_hash_bulk(const struct rte_hash *table, const uint8_t *keys, uint64_t count,
				uint32_t key_bytes, uint32_t ahead, uint32_t batch, const uint64_t *states, uint64_t *hits)
{
	const void *pointers[BULK];
	int32_t positions[BULK];
	uint64_t sum = 0;
	uint64_t found = 0;

	for (uint64_t from = 0; from < count; from += batch) {
		uint32_t some = count - from < batch ? count - from : batch;

		for (uint32_t i = 0; i < some; i++) {
			pointers[i] = keys + (from + i) * key_bytes;
			ask_for(keys, (from + i + ahead) * key_bytes);
		}
		rte_hash_lookup_bulk(table, pointers, some, positions);
		for (uint32_t i = 0; i < some; i++)
			if (positions[i] >= 0)
				rte_prefetch1(&states[(uint64_t)positions[i] * 8]);
		for (uint32_t i = 0; i < some; i++) {
			if (positions[i] >= 0) {
				sum += states[(uint64_t)positions[i] * 8];
				found++;
			}
		}
	}
	*hits = found;
	return sum;
}

uint64_t flowloom_rte_hash_single(const struct rte_hash *table, const uint8_t *keys, uint64_t count,
				  uint32_t key_bytes, uint32_t ahead, const uint64_t *states)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < count; i++) {
		ask_for(keys, (i + ahead) * key_bytes);
		int32_t position = rte_hash_lookup(table, keys + i * key_bytes);

		if (position >= 0)
			sum += states[(uint64_t)position * 8];
	}
	return sum;
}

/* Finds each key, or inserts it with a state of zeros, and counts in the second word of its state. */
uint64_t flowloom_rte_hash_count(struct rte_hash *table, const uint8_t *keys, uint64_t count, uint32_t key_bytes,
				 uint32_t ahead, uint64_t *states)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < count; i++) {
		ask_for(keys, (i + ahead) * key_bytes);
		const void *key = keys + i * key_bytes;
		int32_t position = rte_hash_lookup(table, key);

		if (position < 0) {
			position = rte_hash_add_key(table, key);
			if (position < 0)
				continue;
			memset(&states[(uint64_t)position * 8], 0, 64);
		}
		states[(uint64_t)position * 8 + 1]++;
		sum += states[(uint64_t)position * 8];
	}
	return sum;
}

uint64_t flowloom_rte_hash_iterate(const struct rte_hash *table, const uint64_t *states)
{
	const void *key;
	void *data;
	uint32_t next = 0;
	uint64_t sum = 0;
	int32_t position;

	while ((position = rte_hash_iterate(table, &key, &data, &next)) >= 0)
		sum += states[(uint64_t)position * 8];
	return sum;
}

/* As flowloom_rte_hash_single, each key changed by nothing that is known once the answer before is there. */
uint64_t flowloom_rte_hash_dependent(const struct rte_hash *table, const uint64_t *keys, uint64_t count,
				     uint32_t key_words, uint32_t ahead, const uint64_t *states)
{
	uint64_t key[KEY_WORDS_MAX];
	uint64_t sum = 0;
	uint64_t nothing = 0;

	for (uint64_t i = 0; i < count; i++) {
		ask_for(keys, (i + ahead) * key_words * sizeof(*keys));
		for (uint32_t word = 0; word < key_words; word++)
			key[word] = keys[i * key_words + word];
		key[0] ^= nothing;
		int32_t position = rte_hash_lookup(table, key);
		uint64_t number = position < 0 ? 0 : states[(uint64_t)position * 8];

		nothing = number >> 32;
		sum += number;
	}
	return sum;
}
