/* A libnvidia-ml.so.1 for machines without a GPU, driven by the file that TRIMTAB_FAKE_NVML names.
 *
 * Each line of it is a name and a number: `gpus 2`, `gpu0.busy 40`. `gpu*.busy 40` holds for every
 * GPU that has no line of its own, and `gpu*.busy 40~20` is 40 to 59 by chance. The file is read
 * again every 20 ms, so a test changes it while the agent runs:
 *
 *   init 9             what nvmlInit answers (9: the driver isn't loaded)
 *   init.hang 1        nvmlInit doesn't return while this line is there
 *   init.memory_mib 18 what nvmlInit takes of memory
 *   gpu1.answer 15     what every question about GPU 1 is answered (15: it is lost)
 *   gpu1.hang 1        ... isn't answered at all
 *   gpu0.no.samples 1  this kind of question is answered "not supported"
 *   gpu0.mig 2         GPU 0 is cut into two slices
 *   gpu0.xid 79        an error that is told once
 *   gpu0.pid 4711      the run's process on it, with gpu0.pid_memory MiB
 *   gpu0.other_pid 12  another process on it, with gpu0.other_memory MiB
 *   gpu0.mps_pid 13    a client of the Multi-Process Service, with gpu0.other_memory MiB
 *   gpu0.price.gpm 0.2 what this kind of question takes, in ms of CPU (price.field83: one field)
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, TIMEOUT = 10 };
enum { MOST = 16, SLICES = 7 };

typedef struct { int gpu, slice; } Device;
typedef struct { double at; } GpmSample;
typedef union { double d; unsigned ui; unsigned long long ull; } Value;

static Device devices[MOST][SLICES + 1];
static char script[16384];
static int told_xid[MOST];
static int without_chance;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void read_script(void) {
    static double read_at = -1;
    const char *path = getenv("TRIMTAB_FAKE_NVML");
    if (now() - read_at < 0.02) return;
    read_at = now();
    FILE *file = path ? fopen(path, "r") : NULL;
    size_t length = file ? fread(script + 1, 1, sizeof script - 2, file) : 0;
    script[0] = '\n';
    script[length + 1] = 0;
    if (file) fclose(file);
}

static int find(const char *name, double *value) {
    char wanted[80];
    double spread = 0;
    snprintf(wanted, sizeof wanted, "\n%s ", name);
    const char *line = strstr(script, wanted);
    if (!line) return 0;
    int numbers = sscanf(line + strlen(wanted), "%lf~%lf", value, &spread);
    if (numbers == 2 && !without_chance) *value += rand() % (int)spread;
    return 1;
}

static double said(int gpu, const char *what, double otherwise) {
    char name[64];
    double value;
    read_script();
    snprintf(name, sizeof name, "gpu%d.%s", gpu, what);
    if (find(name, &value)) return value;
    snprintf(name, sizeof name, "gpu*.%s", what);
    return find(name, &value) ? value : otherwise;
}

static int global(const char *name, int otherwise) {
    double value;
    read_script();
    return find(name, &value) ? (int)value : otherwise;
}

/* Takes the CPU time that the real driver takes for it. */
static void take(int gpu, const char *kind) {
    char name[48];
    struct timespec t;
    snprintf(name, sizeof name, "price.%s", kind);
    double price_ms = said(gpu, name, 0), until_ms = 0, now_ms;
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        now_ms = t.tv_sec * 1e3 + t.tv_nsec / 1e6;
        if (!until_ms) until_ms = now_ms + price_ms;
    } while (now_ms < until_ms);
}

/* What a question of this kind is answered; hangs where it is to hang. */
static int asked(const Device *device, const char *kind) {
    char no[48];
    while (said(device->gpu, "hang", 0)) usleep(10000);
    snprintf(no, sizeof no, "no.%s", kind);
    if (said(device->gpu, no, 0)) return NOT_SUPPORTED;
    take(device->gpu, kind);
    return (int)said(device->gpu, "answer", OK);
}
#define ASKED(kind) do { int answer = asked(device, kind); if (answer) return answer; } while (0)

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    while (global("init.hang", 0)) usleep(10000);
    size_t size = (size_t)global("init.memory_mib", 0) << 20;
    char *memory = size ? malloc(size) : NULL;
    for (size_t at = 0; memory && at < size; at += 4096) ((volatile char *)memory)[at] = 1;
    return global("init", OK);
}
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { (void)code; return "as scripted"; }

int nvmlDeviceGetCount_v2(unsigned *count) { *count = global("gpus", 1); return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
    if (index >= MOST) return 2;
    devices[index][0].gpu = index;
    *device = &devices[index][0];
    return asked(*device, "handle");
}

int nvmlDeviceGetName(Device *device, char *name, unsigned size) {
    ASKED("name");
    snprintf(name, size, "NVIDIA H100 80GB HBM3");
    return OK;
}

int nvmlDeviceGetUUID(Device *device, char *uuid, unsigned size) {
    ASKED("uuid");
    const char *form = device->slice ? "MIG-%08x-0000-0000-0000-%012x" : "GPU-%08x-0000-0000-0000-%012x";
    snprintf(uuid, size, form, device->gpu + 0xa0, device->slice);
    return OK;
}

typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory;
int nvmlDeviceGetMemoryInfo_v2(Device *device, Memory *memory) {
    ASKED("memory");
    memory->total = 81920ull << 20;
    if (device->slice) memory->total /= SLICES;
    memory->reserved = 512ull << 20;
    memory->used = (unsigned long long)said(device->gpu, device->slice ? "mig_memory" : "memory", 1024) << 20;
    memory->free = memory->total - memory->reserved - memory->used;
    return OK;
}

int nvmlDeviceGetUtilizationRates(Device *device, unsigned *rates) {
    ASKED("utilization");
    if (said(device->gpu, "mig", 0)) return NOT_SUPPORTED;
    rates[0] = said(device->gpu, "busy", 0);
    rates[1] = said(device->gpu, "controller", 0);
    return OK;
}

/* The driver's own samples, six a second. */
typedef struct { unsigned long long at_us; Value value; } Sample;
int nvmlDeviceGetSamples(Device *device, int kind, unsigned long long seen_us, int *type,
                         unsigned *count, Sample *samples) {
    (void)kind;
    ASKED("samples");
    if (said(device->gpu, "mig", 0)) return NOT_SUPPORTED;
    unsigned long long each = 1000000 / 6, last = (unsigned long long)(now() * 1e6) / each;
    unsigned long long first = seen_us ? seen_us / each + 1 : last - 2;
    if (first > last) return NOT_FOUND;
    if (last - first > 100) first = last - 100;
    *type = 1;
    unsigned found = last - first + 1;
    if (samples && found > *count) found = *count; /* one more came since the caller asked how many */
    if (samples)
        for (unsigned i = 0; i < found; i++)
            samples[i] = (Sample){(first + i) * each, {.ui = said(device->gpu, "busy", 0)}};
    *count = found;
    return OK;
}

int nvmlDeviceGetClockInfo(Device *device, int kind, unsigned *mhz) {
    ASKED("clocks");
    *mhz = said(device->gpu, kind == 1 ? "sm_clock" : "memory_clock", 1980);
    return OK;
}
int nvmlDeviceGetPowerUsage(Device *device, unsigned *milliwatts) {
    ASKED("power");
    *milliwatts = said(device->gpu, "power", 300) * 1000;
    return OK;
}
int nvmlDeviceGetTemperature(Device *device, int sensor, unsigned *celsius) {
    (void)sensor;
    ASKED("temperature");
    *celsius = said(device->gpu, "temperature", 50);
    return OK;
}
int nvmlDeviceGetCurrentClocksEventReasons(Device *device, unsigned long long *reasons) {
    ASKED("reasons");
    *reasons = said(device->gpu, "reasons", 0);
    return OK;
}
int nvmlDeviceGetCurrPcieLinkGeneration(Device *device, unsigned *generation) {
    ASKED("link");
    *generation = said(device->gpu, "link_generation", 5);
    return OK;
}
int nvmlDeviceGetCurrPcieLinkWidth(Device *device, unsigned *lanes) {
    ASKED("link");
    *lanes = said(device->gpu, "link_lanes", 16);
    return OK;
}

typedef struct {
    uint32_t id, scope;
    int64_t at, latency_us;
    int type, answer;
    Value value;
} Field;

/* Counters grow by what is said for a second. */
static unsigned long long counted(int gpu, const char *what) {
    without_chance = 1;
    unsigned long long count = said(gpu, what, 0) * now();
    without_chance = 0;
    return count;
}

int nvmlDeviceGetTotalEnergyConsumption(Device *device, unsigned long long *millijoules) {
    ASKED("energy");
    *millijoules = counted(device->gpu, "power") * 1000;
    return OK;
}

int nvmlDeviceGetFieldValues(Device *device, int count, Field *fields) {
    ASKED("fields");
    for (Field *field = fields; field < fields + count; field++) {
        char kind[16];
        snprintf(kind, sizeof kind, "field%u", field->id);
        take(device->gpu, kind);
        field->type = 3;
        field->answer = OK;
        switch (field->id) {
        case 3: field->value.ull = said(device->gpu, "ecc_corrected", 0); break;
        case 4: field->value.ull = said(device->gpu, "ecc_uncorrected", 0); break;
        case 74: field->value.ull = counted(device->gpu, "power_cap_ns"); break;
        case 83: field->value.ull = counted(device->gpu, "power") * 1000; break;
        case 94: field->type = 1, field->value.ui = said(device->gpu, "replays", 0); break;
        case 138: field->value.ull = counted(device->gpu, "nvlink_sent_kib"); break;
        case 139: field->value.ull = counted(device->gpu, "nvlink_received_kib"); break;
        case 186: field->type = 1, field->value.ui = said(device->gpu, "power", 300) * 1000; break;
        case 190: field->type = 1, field->value.ui = 700000; break;
        /* As an H200 with driver 580 does: they begin again at 4 GiB. */
        case 197: field->value.ull = (uint32_t)counted(device->gpu, "pcie_sent"); break;
        case 198: field->value.ull = (uint32_t)counted(device->gpu, "pcie_received"); break;
        case 269: field->value.ull = counted(device->gpu, "software_thermal_ns"); break;
        case 270: field->value.ull = counted(device->gpu, "hardware_thermal_ns"); break;
        case 271: field->value.ull = counted(device->gpu, "power_brake_ns"); break;
        default: field->answer = NOT_SUPPORTED;
        }
        if (said(device->gpu, "no.pcie_counters", 0) && field->id >= 197 && field->id <= 198)
            field->answer = NOT_SUPPORTED;
    }
    return OK;
}

typedef struct { unsigned pid; unsigned long long used; unsigned instance, compute; } Process;
static int processes(Device *device, const char **kinds, unsigned *count, Process *found) {
    unsigned room = *count;
    *count = 0;
    for (; *kinds; kinds++) {
        char size[32];
        unsigned pid = said(device->gpu, *kinds, 0);
        snprintf(size, sizeof size, "%s_memory", strcmp(*kinds, "pid") ? "other" : "pid");
        if (pid && *count < room)
            found[*count] = (Process){pid, (unsigned long long)said(device->gpu, size, 0) << 20, 0, 0};
        *count += pid > 0;
    }
    return *count > room ? TOO_SMALL : OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *count, Process *found) {
    ASKED("processes");
    return processes(device, (const char *[]){"pid", "other_pid", NULL}, count, found);
}
int nvmlDeviceGetMPSComputeRunningProcesses_v3(Device *device, unsigned *count, Process *found) {
    ASKED("mps_processes");
    return processes(device, (const char *[]){"mps_pid", NULL}, count, found);
}

int nvmlDeviceGetMigMode(Device *device, unsigned *mode, unsigned *pending) {
    ASKED("mig_mode");
    *mode = *pending = said(device->gpu, "mig", 0) > 0;
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned *count) {
    ASKED("mig_mode");
    *count = SLICES;
    return OK;
}
int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **slice) {
    ASKED("mig_mode");
    if (index >= said(device->gpu, "mig", 0)) return NOT_FOUND;
    *slice = &devices[device->gpu][index + 1];
    **slice = (Device){device->gpu, index + 1};
    return OK;
}
int nvmlDeviceGetGpuInstanceId(Device *device, unsigned *id) { *id = device->slice; return OK; }

/* GPM: SM activity and its kin, as the mean between two samples. */
typedef struct { unsigned version, supported; } GpmSupport;
typedef struct { unsigned id; int answer; double value; const char *texts[3]; } GpmMetric;
typedef struct { unsigned version, count; GpmSample *one, *two; GpmMetric metrics[]; } GpmQuestion;
static int gpm_gpu;

int nvmlGpmQueryDeviceSupport(Device *device, GpmSupport *support) {
    ASKED("gpm_support");
    support->supported = !said(device->gpu, "no.gpm", 0);
    return OK;
}
int nvmlGpmSampleAlloc(GpmSample **sample) { *sample = calloc(1, sizeof **sample); return OK; }
int nvmlGpmSampleFree(GpmSample *sample) { free(sample); return OK; }
int nvmlGpmSampleGet(Device *device, GpmSample *sample) {
    ASKED("gpm");
    gpm_gpu = device->gpu;
    sample->at = now();
    return OK;
}
int nvmlGpmMigSampleGet(Device *device, unsigned instance, GpmSample *sample) {
    (void)instance;
    return nvmlGpmSampleGet(device, sample);
}
int nvmlGpmMetricsGet(GpmQuestion *question) {
    if (question->one->at == 0 || question->two->at - question->one->at < 0.05) return 2;
    take(gpm_gpu, "gpm_metrics");
    for (unsigned i = 0; i < question->count; i++) {
        GpmMetric *metric = &question->metrics[i];
        int is_traffic = metric->id == 20 || metric->id == 21;
        metric->answer = is_traffic && said(gpm_gpu, "no.gpm_traffic", 0) ? NOT_SUPPORTED : OK;
        if (is_traffic) {
            const char *what = metric->id == 20 ? "pcie_sent" : "pcie_received";
            metric->value = said(gpm_gpu, what, 0) / (1 << 20);
            continue;
        }
        metric->value = said(gpm_gpu, metric->id == 2 ? "sm_active" : "other_activity", 10);
    }
    return OK;
}

typedef struct {
    Device *device;
    unsigned long long kind, data;
    unsigned instance, compute;
} Event;
int nvmlEventSetCreate(void **set) { *set = devices; return OK; }
int nvmlEventSetFree(void *set) { (void)set; return OK; }
int nvmlDeviceRegisterEvents(Device *device, unsigned long long kinds, void *set) {
    (void)kinds, (void)set;
    ASKED("events");
    return OK;
}
int nvmlEventSetWait_v2(void *set, Event *event, unsigned timeout_ms) {
    (void)set, (void)timeout_ms;
    for (int gpu = 0; gpu < MOST; gpu++) {
        int xid = said(gpu, "xid", 0);
        if (xid && told_xid[gpu] != xid) {
            told_xid[gpu] = xid;
            *event = (Event){&devices[gpu][0], 8, xid, ~0u, ~0u};
            return OK;
        }
    }
    return TIMEOUT;
}
