// Vectorscan behind three calls: all buffers of a list are scanned within one, so that no call is charged per buffer.
#include <hs.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct flowloom_vs {
    hs_database_t *database;
    hs_scratch_t *scratch;
    hs_stream_t *stream;
};

void flowloom_vs_free(struct flowloom_vs *vs) {
    if (!vs) {
        return;
    }
    if (vs->stream) {
        hs_close_stream(vs->stream, vs->scratch, NULL, NULL);
    }
    hs_free_scratch(vs->scratch);
    hs_free_database(vs->database);
    free(vs);
}

// Compiles; on failure `bad` is the index of the pattern at fault, or -1.
struct flowloom_vs *flowloom_vs_new(const char *const *patterns, const unsigned *ids, unsigned count, int streaming,
                                    int *bad) {
    struct flowloom_vs *vs = calloc(1, sizeof *vs);
    unsigned *flags = calloc(count, sizeof *flags);
    hs_compile_error_t *error = NULL;
    *bad = -1;
    if (!vs || !flags) {
        free(flags);
        free(vs);
        return NULL;
    }
    for (unsigned i = 0; i < count; i++) {
        flags[i] = HS_FLAG_DOTALL | HS_FLAG_SINGLEMATCH;
    }
    if (hs_compile_multi(patterns, flags, ids, count, streaming ? HS_MODE_STREAM : HS_MODE_BLOCK, NULL, &vs->database,
                         &error) != HS_SUCCESS) {
        *bad = error ? error->expression : -1;
        hs_free_compile_error(error);
        free(flags);
        free(vs);
        return NULL;
    }
    free(flags);
    if (hs_alloc_scratch(vs->database, &vs->scratch) != HS_SUCCESS ||
        (streaming && hs_open_stream(vs->database, 0, &vs->stream) != HS_SUCCESS)) {
        flowloom_vs_free(vs);
        return NULL;
    }
    return vs;
}

static int keep_lowest(unsigned id, unsigned long long from, unsigned long long to, unsigned flags, void *context) {
    uint32_t *best = context;
    (void)from;
    (void)to;
    (void)flags;
    if (id < *best) {
        *best = id;
    }
    return 0;
}

// Scans the buffers `base[bounds[2i]..bounds[2i + 1]]`, each whole, and writes the lowest id that matched in each.
int flowloom_vs_blocks(struct flowloom_vs *vs, const char *base, const uint64_t *bounds, uint64_t count, uint32_t *out) {
    for (uint64_t i = 0; i < count; i++) {
        uint32_t best = UINT32_MAX;
        const uint64_t from = bounds[2 * i];
        if (hs_scan(vs->database, base + from, (unsigned)(bounds[2 * i + 1] - from), 0, vs->scratch, keep_lowest,
                    &best) != HS_SUCCESS) {
            return -1;
        }
        out[i] = best;
    }
    return 0;
}

// Scans streams piece by piece. Stream i consists of the pieces `first[i]..first[i + 1]`.
int flowloom_vs_streams(struct flowloom_vs *vs, const char *base, const uint64_t *pieces, const uint64_t *first,
                        uint64_t count, uint32_t *out) {
    for (uint64_t i = 0; i < count; i++) {
        uint32_t best = UINT32_MAX;
        for (uint64_t p = first[i]; p < first[i + 1]; p++) {
            const uint64_t from = pieces[2 * p];
            if (hs_scan_stream(vs->stream, base + from, (unsigned)(pieces[2 * p + 1] - from), 0, vs->scratch,
                               keep_lowest, &best) != HS_SUCCESS) {
                return -1;
            }
        }
        // Begins the stream anew, and reports what matches at its end.
        if (hs_reset_stream(vs->stream, 0, vs->scratch, keep_lowest, &best) != HS_SUCCESS) {
            return -1;
        }
        out[i] = best;
    }
    return 0;
}
