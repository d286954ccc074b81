package targets

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sapo-swarm/swarm/configs"
)

// Values that the targets accept. Slurm's option lines, image names and Kubernetes names cannot be quoted, so they
// must match these patterns.
var (
	label     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)  // RFC 1123
	subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`) // RFC 1123, with dots
	// an option's value in Slurm, a cloud's region
	word    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.,:@+=/-]*$`)
	gpuType = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`) // also a Kubernetes label's value
	image   = regexp.MustCompile(`^[a-z0-9][A-Za-z0-9_./:-]*(@sha256:[0-9a-f]{64})?$`)
	limit   = regexp.MustCompile(`^(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?$`)
)

// minMinutes is the shortest useful time limit of a Slurm job. swarm stops some time before the job's end, and
// Slurm may signal a minute early.
const minMinutes = 15

func (s Spec) check() error {
	for _, rule := range []struct {
		ok                   bool
		flag, value, allowed string
	}{
		{s.Workers >= 1 && s.Workers <= MaxWorkers, "workers", strconv.Itoa(s.Workers), fmt.Sprintf("1 to %d", MaxWorkers)},
		{label.MatchString(s.Name) && len(s.Name) <= MaxNameBytes, "name", s.Name,
			fmt.Sprintf("lowercase letters, digits and inner -, at most %d characters (RFC 1123)", MaxNameBytes)},
		{s.Nodes == "auto" || number(s.Nodes, 1, 64), "nodes", s.Nodes, "auto, or 1 to 64"},
		{s.GPUs >= 0 && s.GPUs <= maxGPUs, "gpus-per-worker", strconv.Itoa(s.GPUs), fmt.Sprintf("0 (the CPU) to %d", maxGPUs)},
		{s.GPUType == "" || gpuType.MatchString(s.GPUType) && len(s.GPUType) <= 63, "gpu-type", s.GPUType,
			"letters, digits and inner _ . -, as the target spells the GPU type"},
		{s.CPUs >= 1 && s.CPUs <= 1024, "cpus", strconv.Itoa(s.CPUs), "1 to 1024"},
		{s.Memory >= 1<<30 && s.Memory <= 1<<50, "memory", fmt.Sprint(s.Memory), "a size from 1GiB, such as 32GB"},
		{filepath.IsAbs(s.Program) && pathText(s.Program), "program", s.Program, "an absolute path"},
		{filepath.IsAbs(s.Dir) && pathText(s.Dir), "out", s.Dir, "an absolute path"},
		{invitationText(s.Invitation), "url", "", "what swarm up printed: tls://host:port?fp=…#token"},
	} {
		if !rule.ok {
			return &configs.Error{Key: rule.flag, Value: rule.value, Allowed: rule.allowed}
		}
	}
	for _, arg := range s.Args {
		if !utf8.ValidString(arg) || strings.ContainsRune(arg, 0) {
			return &configs.Error{Key: "argument", Value: arg, Allowed: "valid UTF-8 without NUL"}
		}
	}
	return s.checkTarget()
}

func (s Spec) checkTarget() error {
	type rule struct {
		ok                   bool
		flag, value, allowed string
	}
	optional := func(re *regexp.Regexp, value string) bool {
		return value == "" || re.MatchString(value) && len(value) <= 253
	}
	rules := map[string][]rule{
		Slurm: {
			{timeOK(s.Time), "time", s.Time, fmt.Sprintf("a time in sbatch's format, such as 24:00:00 or 3-00:00:00, at least %d minutes", minMinutes)},
			{optional(word, s.Partition), "partition", s.Partition, "letters, digits and _ . , : @ + = / -"},
			{optional(word, s.Account), "account", s.Account, "letters, digits and _ . , : @ + = / -"},
			{s.Scratch == "" || filepath.IsAbs(s.Scratch) && pathText(s.Scratch), "scratch", s.Scratch, "an absolute path"},
			{!strings.ContainsAny(s.Dir, "\"'\\%#"), "out", s.Dir, "a path without quotes, backslash, % and #, which Slurm interprets"},
		},
		Kubernetes: {
			{image.MatchString(s.Image), "image", s.Image, "an image with swarm, Python and PyTorch, such as registry.example.com/swarm:1"},
			{label.MatchString(s.Namespace) && len(s.Namespace) <= 63, "namespace", s.Namespace, "lowercase letters, digits and inner -, at most 63 characters (RFC 1123)"},
			{s.Storage >= 1<<30 && s.Storage <= 1<<50, "storage", fmt.Sprint(s.Storage), "a size from 1GiB, such as 20GiB"},
			{optional(subdomain, s.StorageClass), "storage-class", s.StorageClass, "lowercase letters, digits and inner - and . (RFC 1123)"},
		},
		SkyPilot: {
			{s.GPUs == 0 || s.GPUType != "", "gpu-type", s.GPUType, "the card's name in sky show-gpus, such as A100, or --gpus-per-worker 0"},
			{optional(image, s.Image), "image", s.Image, "an image name"},
			{optional(word, s.Infra), "infra", s.Infra, "cloud[/region[/zone]], such as aws/us-east-1, or k8s"},
		},
		Compose: {
			{image.MatchString(s.Image), "image", s.Image, "an image name, such as " + DefaultImage},
		},
	}
	list, known := rules[s.Target]
	if !known {
		return &configs.Error{Key: "target", Value: s.Target, Allowed: strings.Join([]string{Slurm, Kubernetes, SkyPilot, Compose}, ", ")}
	}
	if s.Invitation == "" && s.Target != Slurm {
		return &configs.Error{Key: "url", Allowed: "the command that swarm up --listen printed, because these workers do not share its disk"}
	}
	for _, r := range list {
		if !r.ok {
			e := &configs.Error{Key: r.flag, Value: r.value, Allowed: r.allowed}
			if r.value == "" {
				e.Problem = "--" + r.flag + " is missing"
			}
			return e
		}
	}
	return nil
}

func number(text string, low, high int) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= low && n <= high && strconv.Itoa(n) == text
}

// pathText reports whether text is valid within a line of every file format that the targets use.
func pathText(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) })
}

// invitationText is a coarse check. swarm join parses the invitation fully. An empty text is valid: the swarm
// shares a folder.
func invitationText(text string) bool {
	if text == "" {
		return true
	}
	plain := !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("'\"\\`$", r) })
	return plain && len(text) <= 4096 && (strings.HasPrefix(text, "tls://") || strings.HasPrefix(text, "nats://"))
}

// timeOK parses a time limit as sbatch(1) does: minutes, minutes:seconds, hours:minutes:seconds, days-hours,
// days-hours:minutes or days-hours:minutes:seconds.
func timeOK(text string) bool {
	parts := limit.FindStringSubmatch(text)
	if parts == nil {
		return false
	}
	units := []float64{1, 1.0 / 60, 0} // minutes
	if parts[1] != "" {
		units = []float64{60, 1, 1.0 / 60}
	} else if parts[4] != "" {
		units = []float64{60, 1, 1.0 / 60}
	}
	days, _ := strconv.ParseFloat("0"+parts[1], 64)
	minutes := days * 24 * 60
	for i, unit := range units {
		n, _ := strconv.ParseFloat("0"+parts[2+i], 64)
		minutes += n * unit
	}
	return minutes >= minMinutes && minutes <= 366*24*60
}
