package systemd

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// parsedUnit has systemd parse a unit and returns the arguments and environment that systemd read. At debug level,
// systemd-analyze verify prints them.
func parsedUnit(t require.TestingT, text string) (argv []string, environment []string) {
	dir, err := os.MkdirTemp("", "swarm-unit-")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "swarm-test.service")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	cmd := exec.Command("systemd-analyze", "verify", "--user", "--man=no", path)
	cmd.Env = append(os.Environ(), "SYSTEMD_LOG_LEVEL=debug", "XDG_RUNTIME_DIR="+dir)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "%s\n%s", text, stderr.String())
	ours := false
	for line := range strings.Lines(stdout.String()) {
		if strings.Contains(line, "-> Unit ") {
			ours = strings.Contains(line, "swarm-test.service")
		}
		line = strings.TrimSuffix(strings.TrimLeft(line, "\t"), "\n")
		if words, ok := strings.CutPrefix(line, "Command Line: "); ok && ours {
			argv = splitQuoted(t, words)
		}
		if value, ok := strings.CutPrefix(line, "Environment: "); ok && ours {
			environment = append(environment, value)
		}
	}
	return argv, environment
}

// splitQuoted parses words as systemd prints them: bare, or in double quotes with escapes of C and of the shell.
func splitQuoted(t require.TestingT, text string) []string {
	var words []string
	for text != "" {
		if text[0] != '"' {
			bare, rest, _ := strings.Cut(text, " ")
			words, text = append(words, bare), rest
			continue
		}
		var word strings.Builder
		text = text[1:]
		for text[0] != '"' {
			if text[0] == '\\' && strings.IndexByte("$`", text[1]) >= 0 { // shell escape
				word.WriteByte(text[1])
				text = text[2:]
				continue
			}
			r, many, rest, err := strconv.UnquoteChar(text, '"')
			require.NoError(t, err, text)
			if many {
				word.WriteRune(r)
			} else {
				word.WriteByte(byte(r))
			}
			text = rest
		}
		words, text = append(words, word.String()), strings.TrimPrefix(text[1:], " ")
	}
	return words
}

// Any text in an argument, a variable or a path reaches swarm up unchanged. The test checks it with systemd's own
// parser.
func TestSystemdReadsWhatWasMeant(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("no systemd-analyze")
	}
	word := rapid.OneOf(
		rapid.StringMatching(`[ -~]{0,12}`),
		rapid.StringOfN(rapid.SampledFrom([]rune("%$\\\"'; \t\nabc{}~#äß\x01\x7f€")), 0, 10, -1),
		rapid.SampledFrom([]string{";", "", "%n", "$HOME", "${HOME}", "$$", "%%", "\\", "a b", "-", "@x", "|", "\\;", "#", "'", "\"", "x\\ny"}),
	)
	values := rapid.StringMatching(`[ -~]{0,12}`)
	some := rapid.SliceOfN(word, 1, 6)
	// few, because each starts a process: rapid's hundreds, and its shrinking, would take a minute
	for seed := range 60 {
		args, value := some.Example(seed), "SWARM_TEST="+values.Example(seed)
		u := Unit{Name: "swarm-test.service", Directory: "/", Exe: "/bin/true", Args: args, Environment: []string{value}}
		text, err := u.Text()
		require.NoError(t, err)
		argv, environment := parsedUnit(t, text)
		for i := range argv {
			// systemd does this when it starts the unit: systemd.service(5)
			argv[i] = strings.ReplaceAll(argv[i], "$$", "$")
		}
		require.Equal(t, append([]string{"/bin/true"}, args...), argv, text)
		require.Equal(t, []string{value}, environment, text)
	}
}

func TestUnitRefusesWhatSystemdCannotHold(t *testing.T) {
	t.Parallel()
	for _, u := range []Unit{
		{Exe: "/x", Directory: "/", Args: []string{"a\x00b"}},
		{Exe: "/x", Directory: "/", Args: []string{"\xff"}},
		{Exe: "/x", Directory: "/a\nb"},
		{Exe: "/x", Directory: `/a\`},
		{Exe: "/x", Directory: "/a "},
	} {
		_, err := u.Text()
		require.Error(t, err, "%+v", u)
	}
}

// systemd accepts both kinds of unit. They treat the exit codes of swarm up as documented.
func TestUnitsAreVerified(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("no systemd-analyze")
	}
	for _, system := range []bool{false, true} {
		u := Unit{
			Name: "swarm-a.service", System: system, Directory: t.TempDir(), Exe: "/bin/true", Args: []string{"up"},
			Environment: []string{"PATH=/bin"},
		}
		text, err := u.Text()
		require.NoError(t, err)
		m := Manager{System: system}
		require.NoError(t, m.Verify(context.Background(), u.Name, text))
		for _, want := range []string{
			"Restart=on-failure\n", "RestartPreventExitStatus=2 4\n", "SuccessExitStatus=129 130 143\n", "KillMode=mixed\n", "TimeoutStopSec=30\n",
			"OOMPolicy=continue\n",
		} {
			require.Contains(t, text, want)
		}
		require.Equal(t, system, strings.Contains(text, "WantedBy=multi-user.target\n"))
		require.Equal(t, system, strings.Contains(text, " nvidia-fabricmanager.service\n"), "up must not start before its GPUs work")
		u.Exe = "/nowhere/swarm"
		text, err = u.Text()
		require.NoError(t, err)
		require.ErrorContains(t, m.Verify(context.Background(), u.Name, text), "systemd rejects the unit: ")
	}
}

// systemd does not restart a unit that has reached its start limit, so there is none.
func TestUnitsHaveNoStartLimit(t *testing.T) {
	t.Parallel()
	text, err := Unit{Exe: "/x", Directory: "/"}.Text()
	require.NoError(t, err)
	unit, service, _ := strings.Cut(text, "\n[Service]\n")
	require.Contains(t, unit, "\nStartLimitIntervalSec=0\n")
	require.Contains(t, service, "\nRestartSec=180\n")
}

func TestUnitKeepsNoSecrets(t *testing.T) {
	t.Parallel()
	kept, left := Environment([]string{
		"PATH=/bin", "HOME=/root", "SWARM_PYTHON=/py", "SWARM_WEBHOOK=https://x/secret", "SWARM_JOIN=tls://h:1#t", "SWARM_API_KEY=k", "SWARM_NATS_TOKEN=t", "HF_TOKEN=h",
		"HF_HOME=/hf", "MAX_ROUNDS=3", "OTHER=1", "SWARM_MONKEY=1",
	})
	require.Equal(t, []string{"HF_HOME=/hf", "MAX_ROUNDS=3", "PATH=/bin", "SWARM_MONKEY=1", "SWARM_PYTHON=/py"}, kept)
	require.Equal(t, []string{"HF_TOKEN", "SWARM_API_KEY", "SWARM_JOIN", "SWARM_NATS_TOKEN", "SWARM_WEBHOOK"}, left)
}
