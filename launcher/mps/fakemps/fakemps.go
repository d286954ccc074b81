// Package fakemps simulates nvidia-cuda-mps-control for tests. It has the same arguments, commands on stdin, files in
// the pipe and log directories, and answers. Daemon and server are real processes, but there is no GPU. Clients are
// connections that identify themselves. Only tests use the package.
//
// $FAKE_MPS, a list of words separated by commas in the daemon's environment, makes the daemon misbehave:
//
//   - "broken": it does not start
//   - "mute": it starts and never answers
//   - "deaf": clients use the GPU without being listed
//   - "generous": limits are ignored
//   - "unheard": limits hold, but the daemon reports the card's free memory
//   - "short": the card has no free memory once a client has some
//   - "stubborn": quit is ignored
//   - "fragile": a client that ends while busy faults the server
//   - "doomed": its server is in FAULT from the start and never recovers
//   - "offset": it writes its logs where its last line ended, even if they are shorter now
package fakemps

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	daemonVariable = "FAKE_MPS_IS_DAEMON"
	serverVariable = "FAKE_MPS_IS_SERVER"
	pidFile        = "nvidia-cuda-mps-control.pid"
)

// Main is the program nvidia-cuda-mps-control. It exits.
func Main() {
	switch {
	case os.Getenv(serverVariable) != "":
		time.Sleep(10 * time.Minute) // the process exists to be seen and killed
	case os.Getenv(daemonVariable) != "":
		serve()
	case len(os.Args) > 1 && os.Args[1] == "-d":
		os.Exit(background())
	default:
		os.Exit(command(os.Stdin))
	}
	os.Exit(0)
}

// background starts the daemon in a new session, as the real program does. It returns when the daemon's socket
// accepts connections.
func background() int {
	if misbehaves("broken") {
		fmt.Println("Failed to start: MPS is only supported on 64-bit Linux platforms")
		return 1
	}
	if conn, err := dial(); err == nil {
		conn.Close()
		fmt.Println("An instance of this daemon is already running")
		return 1
	}
	os.Remove(socket())
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{os.Args[0], "-d"}
	cmd.Env = append(os.Environ(), daemonVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	for range 1000 {
		if conn, err := dial(); err == nil {
			conn.Close()
			return 0
		}
		time.Sleep(5 * time.Millisecond)
	}
	return 1
}

// command sends each line of in to the daemon and prints the answers.
func command(in io.Reader) int {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		answer, err := Send(lines.Text())
		if err != nil {
			fmt.Fprintln(os.Stderr, "Cannot find MPS control daemon process")
			return 1
		}
		fmt.Print(answer)
	}
	return 0
}

// Send sends one command to the daemon of $CUDA_MPS_PIPE_DIRECTORY. Beside the documented commands there is "fault",
// which simulates a client's fatal error.
func Send(line string) (string, error) {
	conn, err := dial()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	fmt.Fprintln(conn, line)
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// Connect makes process pid a client with a memory limit in the form of CUDA_MPS_PINNED_DEVICE_MEM_LIMIT; "" means no
// limit. The connection accepts the lines "alloc BYTES", "free" (answered with a number of bytes), "busy" and "idle".
// Each is answered with one line.
func Connect(pid int, limit string) (net.Conn, *bufio.Reader, error) {
	conn, err := dial()
	if err != nil {
		return nil, nil, err
	}
	fmt.Fprintf(conn, "client %d %s\n", pid, limit)
	answers := bufio.NewReader(conn)
	answer, err := answers.ReadString('\n')
	if err == nil && strings.TrimSpace(answer) != "connected" {
		err = fmt.Errorf("fakemps: %s", strings.TrimSpace(answer))
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, answers, nil
}

// Canary simulates canary.py with the daemon in place of a GPU. It prints "ready FREE", reads a line, and prints
// "refused" or "allowed".
func Canary(small, large string) int {
	conn, answers, err := Connect(os.Getpid(), os.Getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"))
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	defer conn.Close()
	ask := func(line string) string {
		fmt.Fprintln(conn, line)
		answer, err := answers.ReadString('\n')
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(answer)
	}
	if answer := ask("alloc " + small); answer != "ok" {
		fmt.Println("error", answer)
		return 1
	}
	fmt.Println("ready", ask("free"))
	bufio.NewReader(os.Stdin).ReadString('\n')
	if ask("alloc "+large) == "ok" {
		fmt.Println("allowed")
	} else {
		fmt.Println("refused")
	}
	return 0
}

func socket() string { return filepath.Join(os.Getenv("CUDA_MPS_PIPE_DIRECTORY"), "control") }

func dial() (net.Conn, error) { return net.DialTimeout("unix", socket(), time.Second) }

func misbehaves(how string) bool {
	for word := range strings.SplitSeq(os.Getenv("FAKE_MPS"), ",") {
		if word == how {
			return true
		}
	}
	return false
}

// Client makes another process a client until that process ends, for engines of tests that don't use CUDA. If busy is
// set, the process counts as within a kernel all the time. Client prints "connected" on stdout.
func Client(pid int, busy bool) int {
	conn, answers, err := Connect(pid, os.Getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer conn.Close()
	if busy {
		fmt.Fprintln(conn, "busy")
		if _, err := answers.ReadString('\n'); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	fmt.Println("connected")
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return 0
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Commands are the programs that a testscript needs: the control program, and the programs that a test's Python runs
// in place of CUDA.
func Commands() map[string]func() {
	return map[string]func(){
		"nvidia-cuda-mps-control": Main,
		"fake-mps-canary":         func() { os.Exit(Canary(os.Args[1], os.Args[2])) },
		"fake-mps-client": func() {
			pid, err := strconv.Atoi(os.Args[1])
			if err != nil {
				os.Exit(2)
			}
			os.Exit(Client(pid, len(os.Args) > 2 && os.Args[2] == "busy"))
		},
	}
}
