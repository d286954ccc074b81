/* A fake libnvidia-ml.so.1, which needs no GPU. fakenvml.go describes the environment variables that configure it. A
 * handle of a GPU or of a MIG instance is a pointer to struct device. -DOLD_DRIVER leaves out the functions that driver
 * 390 (2018) lacks. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long u64;

enum {
	SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10,
	GPU_IS_LOST = 15, MAX_DEVICES = 16, MAX_INSTANCES = 8, MAX_PROCESSES = 64, MAX_XIDS = 8, MAX_SETS = 8, TEXT = 1 << 16
};

struct process { unsigned int pid; u64 used; };
struct list { int count; struct process of[MAX_PROCESSES]; };
struct device {
	char name[96], uuid[96];
	u64 total, free, held; /* MiB; held: not free while process holder runs */
	unsigned int holder;
	int util, power, limit, temperature, slowdown_at, mig, lost_after, forbidden, unified, hang, remap_pending, remap_failed, retired, capability, compute_mode; /* -1: not reported */
	u64 slowdown;
	int tells_slowdown, tells_processes, xids, instances, valid;
	struct list computing, clients; /* MPS clients are only in clients */
	u64 xid[MAX_XIDS];
	struct device *parent; /* the GPU of a MIG instance, else NULL */
};
struct set { int used; u64 delivered[MAX_DEVICES][MAX_XIDS]; int count[MAX_DEVICES]; };
struct set_handle { struct set *set; };
struct memory { u64 total, free, used; };
struct utilization { unsigned int gpu, memory; };
struct process_v1 { unsigned int pid; u64 used; };
struct process_v2 { unsigned int pid; u64 used; unsigned int gpu_instance, compute_instance; };
struct event { struct device *device; u64 type, data; unsigned int gpu_instance, compute_instance; };

static struct device devices[MAX_DEVICES], instances[MAX_DEVICES][MAX_INSTANCES];
static unsigned int count, queries[MAX_DEVICES];
static struct set sets[MAX_SETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const u64 XID_EVENT = 8, NOT_TOLD = ~0ULL;

/* listed returns number from "function=number" in a comma-separated list, otherwise if the list lacks it. */
static int listed(const char *variable, const char *function, int otherwise) {
	const char *list = getenv(variable);
	size_t n = strlen(function);
	for (; list != NULL && *list != '\0'; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
		if (strncmp(list, function, n) == 0 && list[n] == '=')
			return atoi(list + n + 1);
	return otherwise;
}

static void add_instance(struct device *d, int index, const char *text) {
	struct device *m = &instances[index][d->instances];
	char profile[64] = "";
	memset(m, 0, sizeof *m);
	if (d->instances == MAX_INSTANCES || sscanf(text, "%63[^/]/%llu/%llu", profile, &m->total, &m->free) != 3)
		return;
	snprintf(m->name, sizeof m->name, "%.60s MIG %.24s", d->name, profile);
	snprintf(m->uuid, sizeof m->uuid, "MIG-%08x-0000-4000-8000-00000000000%x", 0xb0000000u + (unsigned)index, d->instances);
	m->util = m->power = m->limit = m->temperature = m->slowdown_at = m->lost_after = m->remap_pending = m->retired = m->capability = m->compute_mode = -1;
	m->parent = d;
	m->valid = 1;
	d->instances++;
}

/* add_process adds a process from "pid/MiB". It returns 0 if the text is malformed or the list is full. */
static int add_process(struct list *l, const char *text) {
	char used[32];
	struct process *p = &l->of[l->count];
	if (l->count == MAX_PROCESSES || sscanf(text, "%u/%31s", &p->pid, used) != 2)
		return 0;
	p->used = strcmp(used, "-") == 0 ? NOT_TOLD : strtoull(used, NULL, 10) << 20;
	l->count++;
	return 1;
}

static void set_option(struct device *d, int index, const char *o) {
	if (strcmp(o, "mig") == 0) d->mig = 1;
	else if (strcmp(o, "lost") == 0) d->lost_after = 0;
	else if (strcmp(o, "forbidden") == 0) d->forbidden = 1;
	else if (strcmp(o, "unified") == 0) d->unified = 1;
	else if (strcmp(o, "hang") == 0) d->hang = 1;
	else if (strcmp(o, "remap=none") == 0) d->remap_pending = 0;
	else if (strcmp(o, "remap=pending") == 0) d->remap_pending = 1;
	else if (strcmp(o, "remap=failed") == 0) d->remap_pending = 0, d->remap_failed = 1;
	else if (strcmp(o, "retired=pending") == 0) d->retired = 1;
	else if (sscanf(o, "held=%u/%llu", &d->holder, &d->held) == 2) ;
	else if (sscanf(o, "lost=%d", &d->lost_after) == 1) ;
	else if (sscanf(o, "util=%d", &d->util) == 1) ;
	else if (sscanf(o, "power=%d", &d->power) == 1) ;
	else if (sscanf(o, "capability=%d", &d->capability) == 1) ;
	else if (sscanf(o, "mode=%d", &d->compute_mode) == 1) ;
	else if (sscanf(o, "limit=%d", &d->limit) == 1) ;
	else if (sscanf(o, "temp=%d", &d->temperature) == 1) ;
	else if (sscanf(o, "slow=%d", &d->slowdown_at) == 1) ;
	else if (strncmp(o, "clocks=", 7) == 0) d->slowdown = strtoull(o + 7, NULL, 0), d->tells_slowdown = 1;
	else if (strcmp(o, "proc=none") == 0) d->tells_processes = 1;
	else if (strncmp(o, "proc=", 5) == 0 && add_process(&d->computing, o + 5)) d->tells_processes = 1;
	else if (strncmp(o, "mps=", 4) == 0 && add_process(&d->clients, o + 4)) d->tells_processes = 1;
	else if (d->xids < MAX_XIDS && sscanf(o, "xid=%llu", &d->xid[d->xids]) == 1) d->xids++;
	else if (strncmp(o, "inst=", 5) == 0) add_instance(d, index, o + 5);
	else {
		fprintf(stderr, "fake NVML: unknown option %s\n", o);
		abort();
	}
}

static void parse(char *text) {
	char *save = NULL;
	count = 0;
	for (char *entry = strtok_r(text, ";\n", &save); entry != NULL && count < MAX_DEVICES; entry = strtok_r(NULL, ";\n", &save)) {
		struct device *d = &devices[count];
		char options[4096] = "", *more = NULL;
		memset(d, 0, sizeof *d);
		d->util = d->power = d->limit = d->temperature = d->slowdown_at = d->lost_after = d->remap_pending = d->retired = d->capability = d->compute_mode = -1;
		if (sscanf(entry, "%95[^:]:%llu:%llu:%4095s", d->name, &d->total, &d->free, options) < 3)
			continue;
		snprintf(d->uuid, sizeof d->uuid, "GPU-%08x-0000-4000-8000-00000000000%x", 0xa0000000u + count, count);
		for (char *o = strtok_r(options, ",", &more); o != NULL; o = strtok_r(NULL, ",", &more))
			set_option(d, (int)count, o);
		d->valid = 1;
		count++;
	}
}

static void refresh(int first) {
	static char text[TEXT];
	const char *path = getenv("FAKE_NVML_FILE"), *list = getenv("FAKE_NVML");
	if (path != NULL && *path != '\0') {
		FILE *f = fopen(path, "r");
		if (f == NULL)
			return;
		text[fread(text, 1, sizeof text - 1, f)] = '\0';
		fclose(f);
	} else if (!first) {
		return;
	} else {
		snprintf(text, sizeof text, "%s", list == NULL ? "" : list);
	}
	parse(text);
}

/* enter begins an NVML function: it takes the lock and returns SUCCESS, or the error that the function must return. d may
 * be NULL. */
static int enter(const char *function, struct device *d) {
	int delay = listed("FAKE_NVML_DELAY", function, 0);
	if (delay > 0)
		usleep((useconds_t)delay * 1000);
	struct device *gpu = d != NULL && d->parent != NULL ? d->parent : d;
	pthread_mutex_lock(&lock);
	for (refresh(0); gpu != NULL && gpu->hang; refresh(0)) {
		pthread_mutex_unlock(&lock);
		usleep(2000);
		pthread_mutex_lock(&lock);
	}
	int code = listed("FAKE_NVML_FAIL", function, SUCCESS);
	if (code != SUCCESS || d == NULL)
		return code;
	if (!d->valid)
		return INVALID_ARGUMENT;
	unsigned int n = queries[gpu - devices]++;
	if (gpu->lost_after >= 0 && n >= (unsigned int)gpu->lost_after)
		return GPU_IS_LOST;
	return SUCCESS;
}

static int leave(int code) {
	pthread_mutex_unlock(&lock);
	return code;
}

static int tell(int value, unsigned int factor, unsigned int *into) {
	if (value < 0)
		return NOT_SUPPORTED;
	*into = (unsigned int)value * factor;
	return SUCCESS;
}

int nvmlInit_v2(void) {
	int code = enter("nvmlInit", NULL);
	memset(queries, 0, sizeof queries);
	refresh(1);
	return leave(code);
}

int nvmlShutdown(void) { return leave(enter("nvmlShutdown", NULL)); }

const char *nvmlErrorString(int code) {
	switch (code) {
	case 0: return "Success";
	case 3: return "Not Supported";
	case 4: return "Insufficient Permissions";
	case 9: return "Driver Not Loaded";
	case 15: return "GPU is lost";
	case 18: return "Driver/library version mismatch";
	default: return "Unknown Error";
	}
}

int nvmlSystemGetDriverVersion(char *version, unsigned int length) {
	int code = enter("nvmlSystemGetDriverVersion", NULL);
#ifdef OLD_DRIVER
	snprintf(version, length, "390.157");
#else
	snprintf(version, length, "550.54.15");
#endif
	return leave(code);
}

int nvmlDeviceGetCount_v2(unsigned int *n) {
	int code = enter("nvmlDeviceGetCount", NULL);
	*n = count;
	return leave(code);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, struct device **handle) {
	if (index >= MAX_DEVICES)
		return INVALID_ARGUMENT;
	int code = enter("nvmlDeviceGetHandleByIndex", &devices[index]);
	*handle = &devices[index];
	return leave(code);
}

int nvmlDeviceGetName(struct device *d, char *name, unsigned int length) {
	int code = enter("nvmlDeviceGetName", d);
	snprintf(name, length, "%s", d->name);
	return leave(code);
}

int nvmlDeviceGetUUID(struct device *d, char *uuid, unsigned int length) {
	int code = enter("nvmlDeviceGetUUID", d);
	snprintf(uuid, length, "%s", d->uuid);
	return leave(code);
}

/* runs returns 1 if a process has not exited. A zombie has no program any more. */
static int runs(unsigned int pid) {
	char path[32], program[8];
	snprintf(path, sizeof path, "/proc/%u/exe", pid);
	return readlink(path, program, sizeof program) > 0;
}

int nvmlDeviceGetMemoryInfo(struct device *d, struct memory *m) {
	int code = enter("nvmlDeviceGetMemoryInfo", d);
	if (code == SUCCESS && (d->forbidden || d->unified))
		code = d->forbidden ? NO_PERMISSION : NOT_SUPPORTED;
	m->total = d->total << 20;
	m->free = (d->free - (d->held > 0 && runs(d->holder) ? d->held : 0)) << 20;
	m->used = m->total - m->free;
	return leave(code);
}

int nvmlDeviceGetUtilizationRates(struct device *d, struct utilization *u) {
	int code = enter("nvmlDeviceGetUtilizationRates", d);
	return leave(code != SUCCESS ? code : tell(d->mig ? -1 : d->util, 1, &u->gpu));
}

int nvmlDeviceGetPowerUsage(struct device *d, unsigned int *milliwatts) {
	int code = enter("nvmlDeviceGetPowerUsage", d);
	return leave(code != SUCCESS ? code : tell(d->power, 1000, milliwatts));
}

int nvmlDeviceGetEnforcedPowerLimit(struct device *d, unsigned int *milliwatts) {
	int code = enter("nvmlDeviceGetEnforcedPowerLimit", d);
	return leave(code != SUCCESS ? code : tell(d->limit, 1000, milliwatts));
}

int nvmlDeviceGetTemperature(struct device *d, int sensor, unsigned int *celsius) {
	int code = enter("nvmlDeviceGetTemperature", d);
	return leave(code != SUCCESS ? code : sensor != 0 ? INVALID_ARGUMENT : tell(d->temperature, 1, celsius));
}

int nvmlDeviceGetTemperatureThreshold(struct device *d, int kind, unsigned int *celsius) {
	int code = enter("nvmlDeviceGetTemperatureThreshold", d);
	return leave(code != SUCCESS ? code : kind != 1 ? INVALID_ARGUMENT : tell(d->slowdown_at, 1, celsius));
}

static int clocks(const char *function, struct device *d, u64 *reasons) {
	int code = enter(function, d);
	*reasons = d->slowdown;
	return leave(code == SUCCESS && !d->tells_slowdown ? NOT_SUPPORTED : code);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(struct device *d, u64 *reasons) {
	return clocks("nvmlDeviceGetCurrentClocksThrottleReasons", d, reasons);
}

int nvmlDeviceGetRetiredPagesPendingStatus(struct device *d, unsigned int *pending) {
	int code = enter("nvmlDeviceGetRetiredPagesPendingStatus", d);
	return leave(code != SUCCESS ? code : tell(d->retired, 1, pending));
}

/* begin_processes makes the checks that all versions of a process list share, and sets *n to the number of processes. */
static int begin_processes(const char *function, struct device *d, const struct list *l, unsigned int *n) {
	int code = enter(function, d);
	unsigned int room = *n;
	if (code == SUCCESS && !d->tells_processes)
		code = NOT_SUPPORTED;
	*n = (unsigned int)l->count;
	return code == SUCCESS && room < *n ? INSUFFICIENT_SIZE : code;
}

int nvmlDeviceGetComputeRunningProcesses(struct device *d, unsigned int *n, struct process_v1 *list) {
	int code = begin_processes("nvmlDeviceGetComputeRunningProcesses", d, &d->computing, n);
	for (unsigned int i = 0; code == SUCCESS && i < *n; i++)
		list[i] = (struct process_v1){d->computing.of[i].pid, d->computing.of[i].used};
	return leave(code);
}

int nvmlDeviceGetSupportedEventTypes(struct device *d, u64 *types) {
	int code = enter("nvmlDeviceGetSupportedEventTypes", d);
	*types = XID_EVENT | 1 | 2;
	return leave(code);
}

int nvmlEventSetCreate(struct set_handle *handle) {
	int code = enter("nvmlEventSetCreate", NULL);
	for (int i = 0; code == SUCCESS && i < MAX_SETS; i++)
		if (!sets[i].used) {
			memset(&sets[i], 0, sizeof sets[i]);
			sets[i].used = 1;
			handle->set = &sets[i];
			return leave(SUCCESS);
		}
	return leave(code != SUCCESS ? code : 999);
}

int nvmlEventSetFree(struct set_handle handle) {
	int code = enter("nvmlEventSetFree", NULL);
	handle.set->used = 0;
	return leave(code);
}

int nvmlDeviceRegisterEvents(struct device *d, u64 types, struct set_handle handle) {
	int code = enter("nvmlDeviceRegisterEvents", d);
	return leave(code != SUCCESS ? code : !handle.set->used || (types & ~(XID_EVENT | 3)) != 0 ? INVALID_ARGUMENT : SUCCESS);
}

/* undelivered fills *e with an XID that the set has not delivered yet. It returns 0 if there is none. */
static int undelivered(struct set *s, struct event *e) {
	for (unsigned int i = 0; i < count; i++)
		for (int x = 0; x < devices[i].xids; x++) {
			int known = 0;
			for (int k = 0; k < s->count[i]; k++)
				known |= s->delivered[i][k] == devices[i].xid[x];
			if (known || s->count[i] == MAX_XIDS)
				continue;
			s->delivered[i][s->count[i]++] = devices[i].xid[x];
			*e = (struct event){&devices[i], XID_EVENT, devices[i].xid[x], ~0u, ~0u};
			return 1;
		}
	return 0;
}

int nvmlEventSetWait(struct set_handle handle, struct event *e, unsigned int milliseconds) {
	for (unsigned int waited = 0;; waited += 2) {
		int code = enter("nvmlEventSetWait", NULL);
		if (code != SUCCESS || (handle.set->used && undelivered(handle.set, e)))
			return leave(code);
		leave(SUCCESS);
		if (waited >= milliseconds)
			return TIMEOUT;
		usleep(2000);
	}
}

#ifndef OLD_DRIVER

int nvmlEventSetWait_v2(struct set_handle handle, struct event *e, unsigned int milliseconds) {
	return nvmlEventSetWait(handle, e, milliseconds);
}

static int processes_v2(const char *function, struct device *d, const struct list *l, unsigned int *n, struct process_v2 *list) {
	int code = begin_processes(function, d, l, n);
	for (unsigned int i = 0; code == SUCCESS && i < *n; i++)
		list[i] = (struct process_v2){l->of[i].pid, l->of[i].used, ~0u, ~0u};
	return leave(code);
}

int nvmlDeviceGetComputeRunningProcesses_v2(struct device *d, unsigned int *n, struct process_v2 *list) {
	return processes_v2("nvmlDeviceGetComputeRunningProcesses", d, &d->computing, n, list);
}

int nvmlDeviceGetComputeRunningProcesses_v3(struct device *d, unsigned int *n, struct process_v2 *list) {
	return processes_v2("nvmlDeviceGetComputeRunningProcesses", d, &d->computing, n, list);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v2(struct device *d, unsigned int *n, struct process_v2 *list) {
	return processes_v2("nvmlDeviceGetMPSComputeRunningProcesses", d, &d->clients, n, list);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(struct device *d, unsigned int *n, struct process_v2 *list) {
	return processes_v2("nvmlDeviceGetMPSComputeRunningProcesses", d, &d->clients, n, list);
}

int nvmlDeviceGetCurrentClocksEventReasons(struct device *d, u64 *reasons) {
	return clocks("nvmlDeviceGetCurrentClocksEventReasons", d, reasons);
}

int nvmlDeviceGetRemappedRows(struct device *d, unsigned int *correctable, unsigned int *uncorrectable, unsigned int *pending, unsigned int *failed) {
	int code = enter("nvmlDeviceGetRemappedRows", d);
	*correctable = *uncorrectable = 0;
	*failed = (unsigned int)d->remap_failed;
	return leave(code != SUCCESS ? code : tell(d->remap_pending, 1, pending));
}

int nvmlDeviceGetCudaComputeCapability(struct device *d, int *major, int *minor) {
	int code = enter("nvmlDeviceGetCudaComputeCapability", d);
	*minor = 0;
	return leave(code != SUCCESS ? code : tell(d->capability, 1, (unsigned int *)major));
}

int nvmlDeviceGetComputeMode(struct device *d, unsigned int *mode) {
	int code = enter("nvmlDeviceGetComputeMode", d);
	return leave(code != SUCCESS ? code : tell(d->compute_mode, 1, mode));
}

int nvmlDeviceGetMigMode(struct device *d, unsigned int *current, unsigned int *pending) {
	int code = enter("nvmlDeviceGetMigMode", d);
	if (strstr(d->name, "A100") == NULL && strstr(d->name, "H100") == NULL)
		return leave(NOT_SUPPORTED);
	*current = *pending = (unsigned int)d->mig;
	return leave(code);
}

int nvmlDeviceGetMaxMigDeviceCount(struct device *d, unsigned int *n) {
	int code = enter("nvmlDeviceGetMaxMigDeviceCount", d);
	*n = d->mig ? 7 : 0;
	return leave(code);
}

int nvmlDeviceGetMigDeviceHandleByIndex(struct device *d, unsigned int index, struct device **handle) {
	int code = enter("nvmlDeviceGetMigDeviceHandleByIndex", d);
	if (index >= (unsigned int)d->instances)
		return leave(NOT_FOUND);
	*handle = &instances[d - devices][index];
	return leave(code);
}

#endif
