/* A fake libcuda.so.1 with the functions that canary.py calls. The environment sets its memory, in bytes:
 * FAKE_CUDA_FREE is the free memory of the card, and FAKE_CUDA_LIMIT the client's MPS limit. With a limit, the real
 * driver reports two numbers: as free, the smaller rest of limit and card; as total, the whole card (published for a
 * T4 with driver 535). With FAKE_CUDA_WHOLE this library reports the card's rest as free even with a limit.
 * FAKE_CUDA_FAULT makes cuInit fail. */
#include <stdlib.h>

#define OUT_OF_MEMORY 2
#define NOT_READY 807 /* CUDA_ERROR_MPS_SERVER_NOT_READY */

static unsigned long long used;

static unsigned long long number(const char *name) {
  const char *text = getenv(name);
  return text ? strtoull(text, NULL, 10) : 0;
}

static unsigned long long left_of(const char *name) { return number(name) > used ? number(name) - used : 0; }

static unsigned long long left(int limited) {
  unsigned long long card = left_of("FAKE_CUDA_FREE"), limit = left_of("FAKE_CUDA_LIMIT");
  return limited && limit < card ? limit : card;
}

int cuInit(unsigned flags) { return getenv("FAKE_CUDA_FAULT") ? NOT_READY : 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &used; return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
int cuCtxSetCurrent(void *context) { return context == &used ? 0 : 1; }
int cuMemFree_v2(unsigned long long pointer) { return pointer ? 0 : 1; }

int cuMemGetInfo_v2(size_t *free, size_t *total) {
  *free = left(getenv("FAKE_CUDA_LIMIT") && !getenv("FAKE_CUDA_WHOLE"));
  *total = 80000000000;
  return 0;
}

int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes) {
  if (bytes > left(getenv("FAKE_CUDA_LIMIT") != NULL)) return OUT_OF_MEMORY;
  used += bytes;
  *pointer = used;
  return 0;
}
