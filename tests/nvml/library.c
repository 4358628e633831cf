/* A stand-in for NVIDIA's management library, for machines that have no such card.
 *
 * It exports the functions that our programs call through NVIDIA's bindings, with the layouts of the public header.
 * Everything it answers stands in two files of the folder that GPUSTACK_MOCK_NVML names, both read anew at each call:
 *
 *   machine.json  one flat object of texts, written by a test, see `machine.py`
 *   instances     the GPU and compute instances, one a line; written here, under a lock, so that processes share them
 *
 * For any function F:  "error.F" (or "device.N.error.F") is the code it returns, "hang.F" (or "device.N.hang.F") the
 * seconds it waits first, "device.N.lost" makes every call on the card fail, "down" every call at all. A changed
 * "generation" is a reloaded driver: until the library is initialised again, it calls itself uninitialised.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { OK, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 6, INSUFFICIENT_SIZE,
       TIMEOUT = 10, LOST = 15, IN_USE = 19, INSUFFICIENT_RESOURCES = 23 };
enum { MACHINE = 1 << 16, LINES = 256, TEXT = 512 };
typedef unsigned int u32;
typedef unsigned long long u64;
typedef uintptr_t Handle;

/* ---- The machine ----------------------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int initialised;
static char generation[TEXT];

static const char *folder(void) { const char *named = getenv("GPUSTACK_MOCK_NVML"); return named ? named : "."; }

/* The next quoted text from *at on, without its quotes; NULL at the end. A backslash keeps the character behind it. */
static char *quoted(char **at) {
    char *from = strchr(*at, '"'), *to, *out;
    if (!from) return NULL;
    for (to = out = ++from; *to && *to != '"'; to++, out++) { if (*to == '\\' && to[1]) to++; *out = *to; }
    *at = *to ? to + 1 : to;
    *out = 0;
    return from;
}

/* The value of a key; 0 when the machine does not have it. "%f8" in a value is that byte. */
static int text(char *value, const char *format, ...) {
    char key[TEXT], path[TEXT], *body = malloc(MACHINE), *at = body, *name, *found = NULL;
    va_list words;
    va_start(words, format);
    vsnprintf(key, sizeof key, format, words);
    va_end(words);
    snprintf(path, sizeof path, "%s/machine.json", folder());
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = file < 0 ? 0 : read(file, body, MACHINE - 1);
    if (file >= 0) close(file);
    body[size < 0 ? 0 : size] = 0;
    while (!found && (name = quoted(&at))) {
        char *content = quoted(&at);
        if (content && !strcmp(name, key)) found = content;
    }
    if (found) {
        char *out = value;
        for (; *found && out < value + TEXT - 1; found++) {
            u32 byte;
            if (*found == '%' && sscanf(found + 1, "%2x", &byte) == 1) { *out++ = (char)byte; found += 2; }
            else *out++ = *found;
        }
        *out = 0;
    }
    free(body);
    return found != NULL;
}

#define NUMBER(value, ...) ({ char t_[TEXT]; int f_ = text(t_, __VA_ARGS__); if (f_) (value) = strtoull(t_, NULL, 0); f_; })

static void hang(u64 seconds) {
    struct timespec left = {.tv_sec = (time_t)seconds};
    while (nanosleep(&left, &left)) {}
}

/* What every call has in common; a device below 0 is none. */
static int entered(const char *function, int device) {
    u64 value = 0;
    char now[TEXT] = "";
    if (NUMBER(value, "hang.%s", function)) hang(value);
    if (device >= 0 && NUMBER(value, "device.%d.hang.%s", device, function)) hang(value);
    if (NUMBER(value, "down")) return (int)value;
    if (NUMBER(value, "error.%s", function)) return (int)value;
    text(now, "generation");
    pthread_mutex_lock(&lock);
    int alive = initialised && !strcmp(now, generation);
    pthread_mutex_unlock(&lock);
    if (!alive) return UNINITIALIZED;
    if (device < 0) return OK;
    char uuid[TEXT];
    if (!text(uuid, "device.%d.uuid", device)) return INVALID_ARGUMENT;
    if (NUMBER(value, "device.%d.lost", device)) return LOST;
    if (NUMBER(value, "device.%d.error.%s", device, function)) return (int)value;
    return OK;
}

#define ENTER(device) do { int code_ = entered(__func__, device); if (code_) return code_; } while (0)
#define ANSWER(out, type, ...) do { u64 v_ = 0; if (!NUMBER(v_, __VA_ARGS__)) return NOT_SUPPORTED; *(out) = (type)v_; return OK; } while (0)

static int answer_text(char *out, u32 length, const char *found) {
    if (strlen(found) >= length) return INSUFFICIENT_SIZE;
    strcpy(out, found);
    return OK;
}

/* ---- Handles: a kind and numbers, never a pointer --------------------------------------------------------------- */

enum { DEVICE = 1, MIG, GI, CI };
static Handle handle(int kind, int device, int gi, int ci) { return (Handle)kind << 24 | device << 16 | gi << 8 | (ci + 1); }
static int kind_of(Handle h) { return h >> 24 & 15; }
static int device_of(Handle h) { return h >> 16 & 255; }
static int gi_of(Handle h) { return h >> 8 & 255; }
static int ci_of(Handle h) { return (int)(h & 255) - 1; }

/* ---- Instances -------------------------------------------------------------------------------------------------- */

/* A GPU instance has ci -1; a compute instance has the gi it lives in, and a UUID. */
struct Line { char uuid[TEXT], mig[TEXT]; int gi, ci; u32 profile, start, size; };
struct Table { int file, count; struct Line lines[LINES]; };

static void table_open(struct Table *table) {
    char path[TEXT], body[MACHINE], *line, *rest = body;
    snprintf(path, sizeof path, "%s/instances", folder());
    table->file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    table->count = 0;
    if (table->file < 0) return;
    flock(table->file, LOCK_EX);
    ssize_t size = read(table->file, body, sizeof body - 1);
    body[size < 0 ? 0 : size] = 0;
    while ((line = strsep(&rest, "\n")) && table->count < LINES) {
        struct Line *to = &table->lines[table->count];
        if (sscanf(line, "%511s %d %d %u %u %u %511s", to->uuid, &to->gi, &to->ci, &to->profile, &to->start, &to->size,
                   to->mig) == 7) table->count++;
    }
}

static void table_close(struct Table *table, int changed) {
    if (table->file < 0) return;
    if (changed) {
        char body[MACHINE];
        int size = 0;
        for (int i = 0; i < table->count; i++) {
            struct Line *l = &table->lines[i];
            size += snprintf(body + size, sizeof body - size, "%s %d %d %u %u %u %s\n", l->uuid, l->gi, l->ci,
                             l->profile, l->start, l->size, l->mig);
        }
        if (pwrite(table->file, body, size, 0) != size || ftruncate(table->file, size)) abort();
    }
    close(table->file);
}

static struct Line *table_find(struct Table *table, const char *uuid, int gi, int ci) {
    for (int i = 0; i < table->count; i++) {
        struct Line *line = &table->lines[i];
        if (!strcmp(line->uuid, uuid) && line->gi == gi && line->ci == ci) return line;
    }
    return NULL;
}

static void uuid_of(int device, char *uuid) { if (!text(uuid, "device.%d.uuid", device)) strcpy(uuid, "-"); }

static int found(int device, int gi, int ci, struct Line *copy) {
    struct Table *table = malloc(sizeof *table);
    char uuid[TEXT];
    uuid_of(device, uuid);
    table_open(table);
    struct Line *line = table_find(table, uuid, gi, ci);
    if (line && copy) *copy = *line;
    int there = line != NULL;
    table_close(table, 0);
    free(table);
    return there ? OK : NOT_FOUND;
}

/* ---- Profiles: "device.N.profile.I" = name|id|compute slices|MiB|most instances|memory slices|starts ------------- */

struct Profile { char name[TEXT], starts[TEXT]; u32 id, slices, most, size; u64 mib; };

static int profile_at(int device, u32 index, struct Profile *p) {
    char line[TEXT];
    memset(p, 0, sizeof *p);
    if (!text(line, "device.%d.profile.%u", device, index)) return NOT_SUPPORTED;
    if (sscanf(line, "%511[^|]|%u|%u|%llu|%u|%u|%511[0-9,]", p->name, &p->id, &p->slices, &p->mib, &p->most, &p->size,
               p->starts) < 6) return NOT_SUPPORTED;
    if (!strcmp(p->name, "-")) *p->name = 0;
    return OK;
}

static int profile_named(int device, u32 id, struct Profile *p) {
    for (u32 index = 0; index < 24; index++) if (!profile_at(device, index, p) && p->id == id) return OK;
    return NOT_FOUND;
}

static int migs(int device) { u64 on = 0; return NUMBER(on, "device.%d.mig", device) ? (on ? OK : NOT_SUPPORTED) : NOT_SUPPORTED; }

/* ---- The library ------------------------------------------------------------------------------------------------ */

int nvmlInitWithFlags(u32 flags) {
    u64 value = 0;
    (void)flags;
    if (NUMBER(value, "hang.%s", __func__)) hang(value);
    if (NUMBER(value, "down") || NUMBER(value, "error.%s", __func__)) return (int)value;
    char now[TEXT] = "";
    text(now, "generation");
    pthread_mutex_lock(&lock);
    initialised++;
    strcpy(generation, now);
    pthread_mutex_unlock(&lock);
    return OK;
}

int nvmlShutdown(void) {
    pthread_mutex_lock(&lock);
    int was = initialised;
    if (initialised) initialised--;
    pthread_mutex_unlock(&lock);
    return was ? OK : UNINITIALIZED;
}

const char *nvmlErrorString(int code) { (void)code; return "an error of the stand-in"; }

int nvmlSystemGetDriverVersion(char *out, u32 length) {
    char value[TEXT];
    ENTER(-1);
    return text(value, "driver") ? answer_text(out, length, value) : NOT_SUPPORTED;
}

int nvmlSystemGetNVMLVersion(char *out, u32 length) {
    char value[TEXT];
    ENTER(-1);
    return text(value, "library") ? answer_text(out, length, value) : NOT_SUPPORTED;
}

int nvmlSystemGetCudaDriverVersion(int *out) { ENTER(-1); ANSWER(out, int, "cuda"); }

int nvmlDeviceGetCount_v2(u32 *out) {
    char uuid[TEXT];
    ENTER(-1);
    for (*out = 0; text(uuid, "device.%u.uuid", *out); ++*out) {}
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(u32 index, Handle *out) {
    ENTER((int)index);
    *out = handle(DEVICE, (int)index, 0, -1);
    return OK;
}

int nvmlDeviceGetHandleByUUID(const char *wanted, Handle *out) {
    char uuid[TEXT];
    ENTER(-1);
    for (int device = 0; text(uuid, "device.%d.uuid", device); device++) {
        if (strcmp(uuid, wanted)) continue;
        ENTER(device);
        *out = handle(DEVICE, device, 0, -1);
        return OK;
    }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(Handle h, char *out, u32 length) {
    char value[TEXT];
    struct Line line;
    ENTER(device_of(h));
    if (kind_of(h) == MIG) {
        int code = found(device_of(h), gi_of(h), ci_of(h), &line);
        return code ? code : answer_text(out, length, line.mig);
    }
    uuid_of(device_of(h), value);
    return answer_text(out, length, value);
}

int nvmlDeviceGetName(Handle h, char *out, u32 length) {
    char value[TEXT] = "";
    ENTER(device_of(h));
    text(value, "device.%d.name", device_of(h));
    return answer_text(out, length, value);
}

int nvmlDeviceGetMinorNumber(Handle h, u32 *out) { ENTER(device_of(h)); ANSWER(out, u32, "device.%d.minor", device_of(h)); }

struct Pci { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; };

int nvmlDeviceGetPciInfo_v3(Handle h, struct Pci *out) {
    char value[TEXT] = "";
    u64 id = 0;
    ENTER(device_of(h));
    memset(out, 0, sizeof *out);
    text(value, "device.%d.pci", device_of(h));
    NUMBER(id, "device.%d.pciDeviceId", device_of(h));
    out->id = (u32)id;
    strncpy(out->bus_id, value, sizeof out->bus_id - 1);
    return OK;
}

static int memory_of(Handle h, u64 *bytes) {
    u64 mib = 0;
    struct Line line;
    struct Profile profile;
    if (kind_of(h) == MIG) {
        int code = found(device_of(h), gi_of(h), -1, &line);
        if (code) return code;
        if (profile_named(device_of(h), line.profile, &profile)) return NOT_SUPPORTED;
        mib = profile.mib;
    } else if (NUMBER(mib, "device.%d.memoryError", device_of(h))) return (int)mib;
    else if (!NUMBER(mib, "device.%d.memory", device_of(h))) return NOT_SUPPORTED;
    *bytes = mib << 20;
    return OK;
}

struct Memory { u64 total, free, used; };
struct Memory2 { u32 version; u64 total, reserved, free, used; };

int nvmlDeviceGetMemoryInfo(Handle h, struct Memory *out) {
    ENTER(device_of(h));
    memset(out, 0, sizeof *out);
    return memory_of(h, &out->total);
}

int nvmlDeviceGetMemoryInfo_v2(Handle h, struct Memory2 *out) { ENTER(device_of(h)); return memory_of(h, &out->total); }

int nvmlDeviceGetMemoryBusWidth(Handle h, u32 *out) { ENTER(device_of(h)); ANSWER(out, u32, "device.%d.busWidth", device_of(h)); }

int nvmlDeviceGetEccMode(Handle h, u32 *current, u32 *pending) {
    ENTER(device_of(h));
    *pending = 0;
    ANSWER(current, u32, "device.%d.ecc", device_of(h));
}

int nvmlDeviceGetMemoryErrorCounter(Handle h, u32 type, u32 counter, u32 location, u64 *out) {
    ENTER(device_of(h));
    if (type != 1 || counter != 0 || location != 2) return NOT_SUPPORTED;
    ANSWER(out, u64, "device.%d.eccErrors", device_of(h));
}

int nvmlDeviceGetNumGpuCores(Handle h, u32 *out) { ENTER(device_of(h)); ANSWER(out, u32, "device.%d.cores", device_of(h)); }

int nvmlDeviceGetCudaComputeCapability(Handle h, int *major, int *minor) {
    char value[TEXT];
    ENTER(device_of(h));
    if (!text(value, "device.%d.computeCapability", device_of(h))) return NOT_SUPPORTED;
    return sscanf(value, "%d.%d", major, minor) == 2 ? OK : NOT_SUPPORTED;
}

int nvmlDeviceGetVirtualizationMode(Handle h, u32 *out) {
    ENTER(device_of(h));
    ANSWER(out, u32, "device.%d.virtualization", device_of(h));
}

int nvmlDeviceGetMigMode(Handle h, u32 *current, u32 *pending) {
    u64 mode = 0;
    ENTER(device_of(h));
    if (!NUMBER(mode, "device.%d.mig", device_of(h))) return NOT_SUPPORTED;
    *current = *pending = (u32)mode;
    if (NUMBER(mode, "device.%d.migPending", device_of(h))) *pending = (u32)mode;
    return OK;
}

/* ---- Partitions ------------------------------------------------------------------------------------------------- */

struct GiProfile { u32 id, p2p, slices, instances, processors, copy, decoders, encoders, jpeg, ofa; u64 mib; };
struct GiProfile2 { u32 version; u32 id, p2p, slices, instances, processors, copy, decoders, encoders, jpeg, ofa; u64 mib; char name[96]; };
struct Place { u32 start, size; };
struct GiInfo { Handle device; u32 id, profile; struct Place place; };
struct CiProfile { u32 id, slices, instances, rest[6]; };
struct CiProfile2 { u32 version; u32 id, slices, instances, rest[6]; char name[96]; };
struct CiInfo { Handle device, gi; u32 id, profile; struct Place place; };

int nvmlDeviceGetGpuInstanceProfileInfo(Handle h, u32 index, struct GiProfile *out) {
    struct Profile p;
    ENTER(device_of(h));
    if (migs(device_of(h)) || profile_at(device_of(h), index, &p)) return NOT_SUPPORTED;
    *out = (struct GiProfile){.id = p.id, .slices = p.slices, .instances = p.most, .mib = p.mib};
    return OK;
}

int nvmlDeviceGetGpuInstanceProfileInfoV(Handle h, u32 index, struct GiProfile2 *out) {
    struct Profile p;
    ENTER(device_of(h));
    if (migs(device_of(h)) || profile_at(device_of(h), index, &p)) return NOT_SUPPORTED;
    *out = (struct GiProfile2){.version = out->version, .id = p.id, .slices = p.slices, .instances = p.most, .mib = p.mib};
    strncpy(out->name, p.name, sizeof out->name - 1);
    return OK;
}

static int legal(const struct Profile *p, u32 start) {
    char starts[TEXT], *rest = starts, *one;
    strcpy(starts, p->starts);
    while ((one = strsep(&rest, ","))) if (*one && strtoul(one, NULL, 10) == start) return 1;
    return 0;
}

int nvmlDeviceGetGpuInstancePossiblePlacements_v2(Handle h, u32 id, struct Place *out, u32 *count) {
    struct Profile p;
    ENTER(device_of(h));
    if (profile_named(device_of(h), id, &p)) return NOT_SUPPORTED;
    u32 found_ = 0;
    for (u32 start = 0; start < 64; start++) if (legal(&p, start)) {
        if (out && found_ < *count) out[found_] = (struct Place){start, p.size};
        found_++;
    }
    if (out && found_ > *count) return INSUFFICIENT_SIZE;
    *count = found_;
    return OK;
}

static int create(Handle h, u32 id, const struct Place *place, Handle *out) {
    struct Profile p;
    char uuid[TEXT];
    if (migs(device_of(h)) || profile_named(device_of(h), id, &p)) return NOT_SUPPORTED;
    uuid_of(device_of(h), uuid);
    struct Table *table = malloc(sizeof *table);
    table_open(table);
    int code = INSUFFICIENT_RESOURCES;
    for (u32 start = place ? place->start : 0; start < 64; start++) {
        int clear = legal(&p, start) && table->count < LINES;
        for (int i = 0; i < table->count; i++) {
            struct Line *l = &table->lines[i];
            if (l->ci < 0 && !strcmp(l->uuid, uuid) && start < l->start + l->size && l->start < start + p.size) clear = 0;
        }
        if (clear) {
            int gi = 1;
            while (table_find(table, uuid, gi, -1)) gi++;
            struct Line *l = &table->lines[table->count++];
            *l = (struct Line){.gi = gi, .ci = -1, .profile = id, .start = start, .size = p.size, .mig = "-"};
            strcpy(l->uuid, uuid);
            *out = handle(GI, device_of(h), gi, -1);
            code = OK;
            break;
        }
        if (place) break;
    }
    table_close(table, !code);
    free(table);
    return code;
}

int nvmlDeviceCreateGpuInstance(Handle h, u32 id, Handle *out) { ENTER(device_of(h)); return create(h, id, NULL, out); }

int nvmlDeviceCreateGpuInstanceWithPlacement(Handle h, u32 id, const struct Place *place, Handle *out) {
    ENTER(device_of(h));
    return create(h, id, place, out);
}

static int destroy(Handle h, int gi, int ci) {
    char uuid[TEXT];
    u64 used = 0;
    if (NUMBER(used, "device.%d.inUse.%d", device_of(h), gi) && used) return IN_USE;
    uuid_of(device_of(h), uuid);
    struct Table *table = malloc(sizeof *table);
    table_open(table);
    struct Line *line = table_find(table, uuid, gi, ci);
    int code = line ? OK : NOT_FOUND;
    for (int i = 0; line && ci < 0 && i < table->count; i++) {
        struct Line *l = &table->lines[i];
        if (!strcmp(l->uuid, uuid) && l->gi == gi && l->ci >= 0) code = IN_USE;
    }
    if (!code) *line = table->lines[--table->count];
    table_close(table, !code);
    free(table);
    return code;
}

int nvmlGpuInstanceDestroy(Handle h) { ENTER(device_of(h)); return destroy(h, gi_of(h), -1); }
int nvmlComputeInstanceDestroy(Handle h) { ENTER(device_of(h)); return destroy(h, gi_of(h), ci_of(h)); }

/* Every instance of a profile: GPU instances of a device, or compute instances of a GPU instance. */
static int listed(Handle h, int kind, u32 profile, Handle *out, u32 *count) {
    char uuid[TEXT];
    uuid_of(device_of(h), uuid);
    struct Table *table = malloc(sizeof *table);
    table_open(table);
    *count = 0;
    for (int i = 0; i < table->count; i++) {
        struct Line *l = &table->lines[i];
        int fits = kind == GI ? l->ci < 0 : l->ci >= 0 && l->gi == gi_of(h);
        if (!strcmp(l->uuid, uuid) && fits && l->profile == profile) out[(*count)++] = handle(kind, device_of(h), l->gi, l->ci);
    }
    table_close(table, 0);
    free(table);
    return OK;
}

int nvmlDeviceGetGpuInstances(Handle h, u32 profile, Handle *out, u32 *count) { ENTER(device_of(h)); return listed(h, GI, profile, out, count); }
int nvmlGpuInstanceGetComputeInstances(Handle h, u32 profile, Handle *out, u32 *count) { ENTER(device_of(h)); return listed(h, CI, profile, out, count); }

int nvmlDeviceGetGpuInstanceById(Handle h, u32 id, Handle *out) {
    ENTER(device_of(h));
    *out = handle(GI, device_of(h), (int)id, -1);
    return found(device_of(h), (int)id, -1, NULL);
}

int nvmlGpuInstanceGetInfo(Handle h, struct GiInfo *out) {
    struct Line l;
    ENTER(device_of(h));
    if (found(device_of(h), gi_of(h), -1, &l)) return NOT_FOUND;
    *out = (struct GiInfo){handle(DEVICE, device_of(h), 0, -1), (u32)l.gi, l.profile, {l.start, l.size}};
    return OK;
}

/* A compute instance of 1, 2, 3, 4, 7, 8 or 6 slices has the profile 0 to 6, which is also its id. */
static int ci_profile(Handle h, u32 index, u32 *slices) {
    static const u32 known[] = {1, 2, 3, 4, 7, 8, 6};
    struct Line l;
    struct Profile p;
    if (index > 6 || found(device_of(h), gi_of(h), -1, &l) || profile_named(device_of(h), l.profile, &p)) return NOT_SUPPORTED;
    *slices = known[index];
    return *slices <= p.slices ? OK : NOT_SUPPORTED;
}

int nvmlGpuInstanceGetComputeInstanceProfileInfoV(Handle h, u32 index, u32 engine, struct CiProfile2 *out) {
    u32 slices;
    (void)engine;
    ENTER(device_of(h));
    if (ci_profile(h, index, &slices)) return NOT_SUPPORTED;
    *out = (struct CiProfile2){.version = out->version, .id = index, .slices = slices, .instances = 8};
    return OK;
}

int nvmlGpuInstanceGetComputeInstanceProfileInfo(Handle h, u32 index, u32 engine, struct CiProfile *out) {
    u32 slices;
    (void)engine;
    ENTER(device_of(h));
    if (ci_profile(h, index, &slices)) return NOT_SUPPORTED;
    *out = (struct CiProfile){.id = index, .slices = slices, .instances = 8};
    return OK;
}

int nvmlGpuInstanceCreateComputeInstance(Handle h, u32 profile, Handle *out) {
    char uuid[TEXT];
    u64 same = 0;
    ENTER(device_of(h));
    uuid_of(device_of(h), uuid);
    struct Table *table = malloc(sizeof *table);
    table_open(table);
    struct Line *gi = table_find(table, uuid, gi_of(h), -1);
    if (gi && table->count < LINES) {
        int ci = 0;
        while (table_find(table, uuid, gi_of(h), ci)) ci++;
        struct Line *l = &table->lines[table->count++];
        *l = (struct Line){.gi = gi_of(h), .ci = ci, .profile = profile, .start = gi->start, .size = gi->size};
        strcpy(l->uuid, uuid);
        NUMBER(same, "sameUuids");
        static u32 serial;
        u32 number = same ? 0 : __sync_add_and_fetch(&serial, 1) ^ (u32)time(NULL) << 8 ^ (u32)getpid() << 4;
        snprintf(l->mig, sizeof l->mig, "MIG-%02x%02x%02x%02x-%08x", device_of(h), gi_of(h), ci, gi->start, number);
        *out = handle(CI, device_of(h), gi_of(h), ci);
    }
    table_close(table, gi != NULL);
    free(table);
    return gi ? OK : NOT_FOUND;
}

int nvmlGpuInstanceGetComputeInstanceById(Handle h, u32 id, Handle *out) {
    ENTER(device_of(h));
    *out = handle(CI, device_of(h), gi_of(h), (int)id);
    return found(device_of(h), gi_of(h), (int)id, NULL);
}

int nvmlComputeInstanceGetInfo_v2(Handle h, struct CiInfo *out) {
    struct Line l;
    ENTER(device_of(h));
    if (found(device_of(h), gi_of(h), ci_of(h), &l)) return NOT_FOUND;
    *out = (struct CiInfo){handle(DEVICE, device_of(h), 0, -1), handle(GI, device_of(h), gi_of(h), -1), (u32)l.ci, l.profile, {0, l.size}};
    return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(Handle h, u32 *out) { ENTER(device_of(h)); *out = 7; return OK; }

int nvmlDeviceGetMigDeviceHandleByIndex(Handle h, u32 index, Handle *out) {
    char uuid[TEXT];
    u32 nth = 0;
    ENTER(device_of(h));
    if (migs(device_of(h))) return NOT_SUPPORTED;
    uuid_of(device_of(h), uuid);
    struct Table *table = malloc(sizeof *table);
    int code = NOT_FOUND;
    table_open(table);
    for (int i = 0; code && i < table->count; i++) {
        struct Line *l = &table->lines[i];
        if (l->ci < 0 || strcmp(l->uuid, uuid) || nth++ != index) continue;
        *out = handle(MIG, device_of(h), l->gi, l->ci);
        code = OK;
    }
    table_close(table, 0);
    free(table);
    return code;
}

int nvmlDeviceGetGpuInstanceId(Handle h, u32 *out) { ENTER(device_of(h)); *out = (u32)gi_of(h); return kind_of(h) == MIG ? OK : INVALID_ARGUMENT; }
int nvmlDeviceGetComputeInstanceId(Handle h, u32 *out) { ENTER(device_of(h)); *out = (u32)ci_of(h); return kind_of(h) == MIG ? OK : INVALID_ARGUMENT; }

/* ---- Events: "device.N.xids" is the list of all that have happened; a set delivers those that come after it ------- */

struct Event { Handle device; u64 type, data; u32 gi, ci; };
struct Set { int devices; int member[32]; u32 told[32]; };

static u32 xids(int device, u64 *list, u32 most) {
    char value[TEXT], *rest = value, *one;
    u32 count = 0;
    if (text(value, "device.%d.xids", device))
        while ((one = strsep(&rest, ",")) && count < most) if (*one) list[count++] = strtoull(one, NULL, 10);
    return count;
}

int nvmlEventSetCreate(struct Set **out) { ENTER(-1); *out = calloc(1, sizeof **out); return OK; }
int nvmlEventSetFree(struct Set *set) { free(set); return OK; }

int nvmlDeviceGetSupportedEventTypes(Handle h, u64 *out) {
    ENTER(device_of(h));
    *out = 8;
    NUMBER(*out, "device.%d.events", device_of(h));
    return OK;
}

int nvmlDeviceRegisterEvents(Handle h, u64 types, struct Set *set) {
    u64 list[64];
    ENTER(device_of(h));
    if (types != 8) return NOT_SUPPORTED;
    set->member[set->devices] = device_of(h);
    set->told[set->devices++] = xids(device_of(h), list, 64);
    return OK;
}

int nvmlEventSetWait_v2(struct Set *set, struct Event *out, u32 milliseconds) {
    for (u32 waited = 0; ; waited += 5) {
        ENTER(-1);
        for (int i = 0; i < set->devices; i++) {
            u64 list[64];
            if (xids(set->member[i], list, 64) <= set->told[i]) continue;
            *out = (struct Event){handle(DEVICE, set->member[i], 0, -1), 8, list[set->told[i]++], ~0u, ~0u};
            return OK;
        }
        if (waited >= milliseconds) return TIMEOUT;
        usleep(5000);
    }
}
