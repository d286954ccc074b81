package fakemps

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// cardBytes is the memory of the card. All of it is available to clients.
const cardBytes = 79_999_000_432

// state is the daemon's state. There is one server, started for the first client.
type state struct {
	mu      sync.Mutex
	logs    map[string]*os.File // by name
	server  *exec.Cmd
	fault   bool
	clients map[net.Conn]*client
}

type client struct {
	pid        int
	limit      int64 // bytes, 0: none
	used       int64
	busy       bool
	terminated bool
}

func serve() {
	listener, err := net.Listen("unix", socket())
	if err != nil {
		os.Exit(1)
	}
	os.WriteFile(filepath.Join(os.Getenv("CUDA_MPS_PIPE_DIRECTORY"), pidFile), fmt.Appendln(nil, os.Getpid()), 0o600)
	s := &state{logs: map[string]*os.File{}, clients: map[net.Conn]*client{}}
	s.log("control.log", "Starting control daemon using socket "+socket())
	if misbehaves("doomed") {
		s.startServer()
		s.fault = true
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			os.Exit(1)
		}
		go s.handle(conn)
	}
}

func (s *state) handle(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n')
	if err != nil {
		return // only a probe whether the daemon runs
	}
	if misbehaves("mute") {
		select {}
	}
	words := strings.Fields(line)
	if words[0] == "client" {
		s.serveClient(conn, in, append(words[1:], ""))
		return
	}
	fmt.Fprint(conn, s.answer(words))
}

// answer logs a command and its answer.
func (s *state) answer(words []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log("control.log", "Cmd:"+strings.Join(words, " "))
	answer := s.obey(words)
	s.log("control.log", "Answer:"+strings.TrimSpace(answer))
	return answer
}

// obey returns the answer to a command, as documented.
func (s *state) obey(words []string) string {
	switch words[0] {
	case "get_server_list":
		if s.server == nil {
			return ""
		}
		return fmt.Sprintln(s.server.Process.Pid)
	case "get_server_status":
		if s.fault {
			return "FAULT\n"
		}
		return "ACTIVE\n"
	case "get_client_list":
		var list []int
		for _, c := range s.clients {
			list = append(list, c.pid)
		}
		slices.Sort(list)
		var b strings.Builder
		if !misbehaves("deaf") {
			for _, pid := range list {
				fmt.Fprintln(&b, pid)
			}
		}
		return b.String()
	case "terminate_client":
		for _, c := range s.clients {
			if strconv.Itoa(c.pid) == words[2] {
				c.terminated = true
				return "0\n"
			}
		}
		return "CUDA_ERROR_INVALID_VALUE\n"
	case "fault":
		s.fail("")
		return ""
	case "quit":
		if misbehaves("stubborn") {
			return ""
		}
		if s.server != nil {
			s.server.Process.Kill()
			s.server.Wait()
		}
		os.Exit(0)
	}
	return "Unknown command\n"
}

// serveClient serves a client's connection, from its first CUDA call to its end.
func (s *state) serveClient(conn net.Conn, in *bufio.Reader, words []string) {
	c := &client{limit: parseLimit(words[1])}
	c.pid, _ = strconv.Atoi(words[0])
	if refusal := s.connect(conn, c); refusal != "" {
		fmt.Fprintln(conn, refusal)
		return
	}
	fmt.Fprintln(conn, "connected")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			s.disconnect(conn, c)
			return
		}
		fmt.Fprintln(conn, s.request(c, strings.Fields(line)))
	}
}

func (s *state) connect(conn net.Conn, c *client) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault {
		return "CUDA_ERROR_MPS_SERVER_NOT_READY"
	}
	if s.server == nil {
		if err := s.startServer(); err != nil {
			return err.Error()
		}
	}
	s.clients[conn] = c
	s.log("server.log", fmt.Sprintf("New client %d connected", c.pid))
	return ""
}

func (s *state) startServer() error {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{os.Args[0], "nvidia-cuda-mps-server"}
	cmd.Env = append(os.Environ(), serverVariable+"=1")
	if err := cmd.Start(); err != nil {
		return err
	}
	s.server = cmd
	s.log("control.log", fmt.Sprintf("NEW SERVER %d: Ready", cmd.Process.Pid))
	return nil
}

func (s *state) request(c *client, words []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch words[0] {
	case "alloc":
		bytes, _ := strconv.ParseInt(words[1], 10, 64)
		if bytes > s.left(c, true) {
			return "CUDA_ERROR_OUT_OF_MEMORY"
		}
		c.used += bytes
	case "free":
		return fmt.Sprint(s.left(c, !misbehaves("unheard")))
	case "busy", "idle":
		c.busy = words[0] == "busy"
	}
	return "ok"
}

// left returns the bytes that a client may still allocate: the rest of its limit, or of the card if that is less.
func (s *state) left(c *client, limited bool) int64 {
	card := int64(cardBytes)
	for _, other := range s.clients {
		card -= other.used
	}
	if misbehaves("short") && c.used > 0 { // another process has just filled the card
		card = 1000000
	}
	if limited && c.limit > 0 && !misbehaves("generous") {
		return min(card, c.limit-c.used)
	}
	return card
}

func (s *state) disconnect(conn net.Conn, c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, conn)
	s.log("server.log", fmt.Sprintf("Client %d disconnected", c.pid))
	if c.busy && !c.terminated && misbehaves("fragile") {
		s.fail(fmt.Sprint(c.pid))
	}
	s.heal()
}

// fail puts the server into FAULT and logs the lines of a real server.
func (s *state) fail(culprit string) {
	s.fault = true
	s.log("server.log", "Volta MPS: Server is handling a fatal GPU error.")
	for _, c := range s.clients {
		s.log("server.log", fmt.Sprintf("Volta MPS: status of client {%d, 1} is INACTIVE", c.pid))
	}
	if culprit != "" {
		s.log("server.log", "Volta MPS: the fault was triggered by "+culprit)
	}
	s.heal()
}

// heal makes a faulted server active once its clients are gone.
func (s *state) heal() {
	if s.fault && len(s.clients) == 0 {
		s.fault = false
		s.log("server.log", "Volta MPS: Creating server context on device 0")
	}
}

// log adds a line to a log, which stays open.
func (s *state) log(name, text string) {
	file := s.logs[name]
	if file == nil {
		flags := os.O_CREATE | os.O_WRONLY
		if !misbehaves("offset") {
			flags |= os.O_APPEND
		}
		var err error
		if file, err = os.OpenFile(filepath.Join(os.Getenv("CUDA_MPS_LOG_DIRECTORY"), name), flags, 0o600); err != nil {
			return
		}
		file.Seek(0, io.SeekEnd)
		s.logs[name] = file
	}
	fmt.Fprintf(file, "[%s Other %d] %s\n", time.Now().Format("2006-01-02 15:04:05.000"), os.Getpid(), text)
}

// parseLimit returns the bytes of "0=2048M" or "0=2G".
func parseLimit(text string) int64 {
	_, value, _ := strings.Cut(text, "=")
	unit := int64(1)
	if number, ok := strings.CutSuffix(value, "M"); ok {
		value, unit = number, 1<<20
	} else if number, ok := strings.CutSuffix(value, "G"); ok {
		value, unit = number, 1<<30
	}
	n, _ := strconv.ParseInt(value, 10, 64)
	return n * unit
}
