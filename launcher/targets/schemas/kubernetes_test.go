package schemas

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/sapo-swarm/swarm/launcher/targets"
)

// manifests returns the documents of a file, each decoded into Kubernetes' own type. An unknown or duplicate field
// is an error.
func manifests(t *testing.T, text string) (list []batch.Job, claims []core.PersistentVolumeClaim, secrets []core.Secret) {
	t.Helper()
	for _, document := range strings.Split(text, "\n---\n") {
		var kind struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
		}
		require.NoError(t, yaml.Unmarshal([]byte(document), &kind))
		switch kind.APIVersion + " " + kind.Kind {
		case "batch/v1 Job":
			var job batch.Job
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), &job))
			list = append(list, job)
		case "v1 PersistentVolumeClaim":
			var claim core.PersistentVolumeClaim
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), &claim))
			claims = append(claims, claim)
		case "v1 Secret":
			var secret core.Secret
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), &secret))
			secrets = append(secrets, secret)
		case " ": // the comment at the start
		default:
			t.Fatalf("unexpected %v", kind)
		}
	}
	return list, claims, secrets
}

func TestKubernetesDecodesEveryFieldStrictly(t *testing.T) {
	s := example(targets.Kubernetes)
	s.GPUs, s.GPUType = 2, "NVIDIA-A100-SXM4-80GB"
	list, claims, _ := manifests(t, text(t, s, "workers.yaml"))
	_, _, secrets := manifests(t, text(t, s, "secret.yaml"))
	require.Len(t, list, 3)
	require.Len(t, claims, 3)
	require.Len(t, secrets, 1)
	require.Equal(t, s.Invitation, secrets[0].StringData["invitation"])

	job, claim := list[1], claims[1]
	require.Equal(t, "swarm-1", job.Name)
	require.Equal(t, "swarm-1", claim.Name)
	require.Equal(t, "fast", *claim.Spec.StorageClassName)
	require.Equal(t, "20Gi", claim.Spec.Resources.Requests.Storage().String())
	pod := job.Spec.Template.Spec
	require.Greater(t, *pod.TerminationGracePeriodSeconds, int64(targets.StopSeconds))
	require.Equal(t, map[string]string{"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}, pod.NodeSelector)
	require.Equal(t, claim.Name, pod.Volumes[0].PersistentVolumeClaim.ClaimName)
	require.Equal(t, secrets[0].Name, pod.Volumes[1].Secret.SecretName)
	require.Equal(t, int32(0o440), *pod.Volumes[1].Secret.DefaultMode)
	worker := pod.Containers[0]
	gpus := worker.Resources.Limits["nvidia.com/gpu"]
	require.Equal(t, int64(2), gpus.Value())
	require.Equal(t, int64(32<<30), worker.Resources.Limits.Memory().Value())
	require.Equal(t, int64(8), worker.Resources.Requests.Cpu().Value())
	require.Equal(t, []string{"--home", "/var/lib/swarm", "join", "--url-file", "/run/secrets/swarm/invitation", "--name", "swarm-1",
		"--nodes", "auto", "--device", "cuda", "--wait", "1h", "--model", "gpt2", "--yes"}, worker.Args)
	for _, mount := range worker.VolumeMounts {
		require.Condition(t, func() bool {
			for _, volume := range pod.Volumes {
				if volume.Name == mount.Name {
					return true
				}
			}
			return false
		}, "no volume %s", mount.Name)
	}
}

// Checks rules of the API server that the types cannot express: for pod failure policies and for names (Kubernetes'
// documentation of Jobs).
func TestKubernetesJobsKeepTheServersRules(t *testing.T) {
	s := example(targets.Kubernetes)
	s.Name, s.Workers = "abcdefghijabcdefghi", targets.MaxWorkers
	list, claims, _ := manifests(t, text(t, s, "workers.yaml"))
	require.Len(t, list, targets.MaxWorkers)
	require.Len(t, claims, targets.MaxWorkers)
	label := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	seen := map[string]bool{}
	for _, job := range list {
		require.Regexp(t, label, job.Name)
		require.False(t, seen[job.Name])
		seen[job.Name] = true
		spec := job.Spec
		require.Equal(t, core.RestartPolicyNever, spec.Template.Spec.RestartPolicy, "podFailurePolicy takes no other")
		require.Equal(t, batch.Failed, *spec.PodReplacementPolicy, "podFailurePolicy takes no other")
		require.LessOrEqual(t, len(spec.PodFailurePolicy.Rules), 20)
		for _, rule := range spec.PodFailurePolicy.Rules {
			require.NotEqual(t, rule.OnExitCodes == nil, len(rule.OnPodConditions) == 0, "a rule has one of the two")
			if codes := rule.OnExitCodes; codes != nil {
				require.Equal(t, spec.Template.Spec.Containers[0].Name, *codes.ContainerName)
				require.IsIncreasing(t, codes.Values, "ordered, without doubles")
				require.NotContains(t, codes.Values, int32(0), "In takes no 0")
			}
		}
		require.Equal(t, batch.PodFailurePolicyActionIgnore, spec.PodFailurePolicy.Rules[0].Action, "first match counts")
		gpu := spec.Template.Spec.Containers[0].Resources
		require.NotContains(t, gpu.Requests, core.ResourceName("nvidia.com/gpu"), "an extended resource's request is its limit")
	}
}

func TestKubernetesHandsOnHostileArguments(t *testing.T) {
	s := example(targets.Kubernetes)
	s.Name, s.Namespace, s.Args = "null", "123", hostileWords(t)
	list, _, _ := manifests(t, text(t, s, "workers.yaml"))
	args := list[0].Spec.Template.Spec.Containers[0].Args
	args = args[len(args)-len(s.Args):]
	for i, arg := range args {
		// The kubelet turns $$ into $ and then expands no $(NAME).
		require.Equal(t, s.Args[i], strings.ReplaceAll(arg, "$$", "$"))
		require.NotContains(t, strings.ReplaceAll(arg, "$$", ""), "$")
	}
	require.Equal(t, "123", list[0].Namespace)
	require.Equal(t, "null", list[0].Labels["app.kubernetes.io/instance"])
}
