/* A libnvidia-ml.so.1 without a GPU. Devices come from FAKE_NVML: "name:totalMiB:freeMiB[:mig];...".
 * FAKE_NVML_FAIL is "function=code": that function returns the NVML code. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, MAX_DEVICES = 16 };

struct memory { unsigned long long total, free, used; };
struct device { char name[96], uuid[96]; unsigned long long total, free; int mig; };

static struct device devices[MAX_DEVICES];
static unsigned int count;

static int failure(const char *function) {
	const char *fail = getenv("FAKE_NVML_FAIL");
	size_t n = strlen(function);
	if (fail == NULL || strncmp(fail, function, n) != 0 || fail[n] != '=')
		return SUCCESS;
	return atoi(fail + n + 1);
}

int nvmlInit_v2(void) {
	const char *list = getenv("FAKE_NVML");
	count = 0;
	memset(devices, 0, sizeof devices);
	while (list != NULL && *list != '\0' && count < MAX_DEVICES) {
		struct device *d = &devices[count];
		char mig[8] = "";
		if (sscanf(list, "%95[^:]:%llu:%llu:%7[^;]", d->name, &d->total, &d->free, mig) >= 3) {
			d->mig = strcmp(mig, "mig") == 0;
			snprintf(d->uuid, sizeof d->uuid, "GPU-%08x-0000-4000-8000-00000000000%x", 0xa0000000u + count, count);
			count++;
		}
		list = strchr(list, ';');
		if (list != NULL)
			list++;
	}
	return failure("nvmlInit");
}

int nvmlShutdown(void) { return failure("nvmlShutdown"); }

const char *nvmlErrorString(int code) {
	switch (code) {
	case 0: return "Success";
	case 9: return "Driver Not Loaded";
	case 15: return "GPU is lost";
	case 18: return "Driver/library version mismatch";
	default: return "Unknown Error";
	}
}

int nvmlSystemGetDriverVersion(char *version, unsigned int length) {
	snprintf(version, length, "550.54.15");
	return failure("nvmlSystemGetDriverVersion");
}

int nvmlDeviceGetCount_v2(unsigned int *n) {
	*n = count;
	return failure("nvmlDeviceGetCount");
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, struct device **handle) {
	if (index >= count)
		return INVALID_ARGUMENT;
	*handle = &devices[index];
	return failure("nvmlDeviceGetHandleByIndex");
}

int nvmlDeviceGetName(struct device *d, char *name, unsigned int length) {
	snprintf(name, length, "%s", d->name);
	return failure("nvmlDeviceGetName");
}

int nvmlDeviceGetUUID(struct device *d, char *uuid, unsigned int length) {
	snprintf(uuid, length, "%s", d->uuid);
	return failure("nvmlDeviceGetUUID");
}

int nvmlDeviceGetMemoryInfo(struct device *d, struct memory *m) {
	m->total = d->total << 20;
	m->free = d->free << 20;
	m->used = m->total - m->free;
	return failure("nvmlDeviceGetMemoryInfo");
}

int nvmlDeviceGetMigMode(struct device *d, unsigned int *current, unsigned int *pending) {
	if (strstr(d->name, "A100") == NULL && strstr(d->name, "H100") == NULL)
		return NOT_SUPPORTED;
	*current = *pending = (unsigned int)d->mig;
	return failure("nvmlDeviceGetMigMode");
}
