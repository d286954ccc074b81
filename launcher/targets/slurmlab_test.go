package targets

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slurmConf describes a cluster of this machine only, with two GPUs that are files. A requeued job waits at least
// cred_expire seconds, unless its start time is changed.
const slurmConf = `ClusterName=lab
SlurmctldHost=%[1]s(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%[2]s/munge.sock
CredType=cred/munge
StateSaveLocation=%[2]s/state
SlurmdSpoolDir=%[2]s/spool
SlurmctldPidFile=%[2]s/slurmctld.pid
SlurmdPidFile=%[2]s/slurmd.pid
SlurmctldLogFile=%[2]s/slurmctld.log
SlurmdLogFile=%[2]s/slurmd.log
SlurmctldPort=%[3]d
SlurmdPort=%[4]d
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
MpiDefault=none
ReturnToService=2
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=sched_interval=1,bf_interval=1
NodeName=%[1]s NodeAddr=127.0.0.1 CPUs=%[5]d RealMemory=2048 Gres=gpu:t4:2 State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10
`

// slurmLab starts Slurm's daemons, or skips the test if they are not installed.
func slurmLab(t *testing.T) {
	t.Helper()
	for _, program := range []string{"slurmctld", "slurmd", "munged", "sbatch"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s here: apt-get install slurm-wlm munge", program)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("slurmd wants root")
	}
	dir, host := t.TempDir(), func() string { name, _ := os.Hostname(); short, _, _ := strings.Cut(name, "."); return short }()
	key := make([]byte, 1024)
	_, err := rand.Read(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "munge.key"), key, 0o400))
	conf := filepath.Join(dir, "slurm.conf")
	// Slurm does not accept port 0. These ports were free a moment ago.
	require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil, slurmConf, host, dir, freePort(t), freePort(t), runtime.NumCPU()), 0o644))
	gres := ""
	for _, card := range []string{"gpu0", "gpu1"} {
		path := filepath.Join(dir, card)
		require.NoError(t, os.WriteFile(path, nil, 0o644))
		gres += "Name=gpu Type=t4 File=" + path + "\n"
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gres.conf"), []byte(gres), 0o644))
	for _, folder := range []string{"state", "spool"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, folder), 0o755))
	}
	t.Setenv("SLURM_CONF", conf)
	daemon(t, dir, "munged", "--foreground", "--force", "--key-file="+dir+"/munge.key", "--socket="+dir+"/munge.sock", "--pid-file="+dir+"/munged.pid",
		"--log-file="+dir+"/munged.log", "--seed-file="+dir+"/munged.seed")
	require.Eventually(t, func() bool { _, err := os.Stat(dir + "/munge.sock"); return err == nil }, patience, 10*time.Millisecond)
	daemon(t, dir, "slurmctld", "-D")
	daemon(t, dir, "slurmd", "-D")
	require.Eventually(t, func() bool {
		return strings.HasPrefix(answer("sinfo", "-h", "-o", "%T"), "idle")
	}, patience, 50*time.Millisecond)
}

// requeued bounds the wait for a requeued job. The wait is long if the update to an early start comes while the job
// is still ending.
const requeued = 3 * time.Minute

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// daemon runs a program in the foreground until the test ends.
func daemon(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	log, err := os.Create(filepath.Join(dir, program+".err"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = log, log, patience
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		log.Close()
	})
}

func slurm(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", program, out)
	return strings.TrimSpace(string(out))
}

// answer returns a command's output, or "" if the command fails, for conditions that are polled.
func answer(program string, args ...string) string {
	out, err := exec.Command(program, args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// A real Slurm accepts the job, gives each worker a GPU and runs it. Near the time limit only that task is queued
// again, and it continues with its home. After preemption, the worker continues later. scancel ends everything.
func TestSlurmRunsTheJob(t *testing.T) {
	slurmLab(t)
	s := slurmJob(t, "", func(s *Spec) { s.GPUs, s.GPUType, s.Workers = 1, "t4", 1 })
	script := filepath.Join(s.Dir, "workers.slurm")
	slurm(t, "sbatch", "--test-only", script)
	id := slurm(t, "sbatch", "--parsable", script, "--model", "two words")
	life := func(n int) {
		t.Helper()
		state := ""
		for deadline := time.Now().Add(requeued); ; time.Sleep(time.Second) {
			found, _ := filepath.Glob(filepath.Join(filepath.Dir(s.Program), fmt.Sprintf("running.swarm-*-0-%s-%d-*", id, n)))
			if len(found) == 1 {
				return
			}
			state = answer("squeue", "-h", "-r", "-j", id, "-o", "%T %r %S")
			// A requeued job would wait for two minutes. It cannot start in the second in which its previous
			// attempt ended, because Slurm rejects that attempt's credential.
			if begin, err := time.ParseInLocation("PENDING BeginTime 2006-01-02T15:04:05", state, time.Local); err == nil && time.Until(begin) > 10*time.Second {
				_ = exec.Command("scontrol", "update", "jobid="+id+"_0", "StartTime=now+3seconds").Run()
			}
			if state == "" || time.Now().After(deadline) {
				log, _ := os.ReadFile(filepath.Join(filepath.Dir(os.Getenv("SLURM_CONF")), "slurmctld.log"))
				said, _ := filepath.Glob(filepath.Join(s.Dir, "logs", "*"))
				for _, path := range said {
					text, _ := os.ReadFile(path)
					log = append(append(log, path+":\n"...), text...)
				}
				t.Fatalf("life %d: the job is %q\n%s", n, state, log)
			}
		}
	}
	queued := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool {
			return answer("squeue", "-h", "-r", "-j", id, "-o", "%T") == "PENDING"
		}, patience, 20*time.Millisecond)
		starts, err := os.ReadFile(filepath.Join(s.Dir, "homes", "swarm-0", "starts"))
		require.NoError(t, err)
		require.Equal(t, strings.Repeat("x\n", n), string(starts))
	}
	life(0)
	require.Contains(t, beside(s, "args"), "--model\x00two words\x00")
	require.Contains(t, slurm(t, "scontrol", "show", "job", id), "gres:gpu:t4:1")
	slurm(t, "scancel", "--batch", "--signal=USR1", id) // as --signal=B:USR1@300 does
	queued(1)
	life(1)
	slurm(t, "scontrol", "requeue", id) // as preemption does
	queued(2)
	life(2)
	slurm(t, "scancel", id)
	require.Eventually(t, func() bool {
		out, err := exec.Command("squeue", "-h").Output()
		return err == nil && len(out) == 0
	}, patience, 20*time.Millisecond)
	saved, err := os.ReadFile(filepath.Join(s.Dir, "homes", "swarm-0", "saved"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, strings.Count(string(saved), "saved\n"), 3)
	left, err := os.ReadDir(s.Scratch)
	require.NoError(t, err)
	require.Empty(t, left)
}
