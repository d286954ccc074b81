package terminal

import (
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"
)

// special are the keys that do not type text.
var special = map[string]tea.Key{
	"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "left": {Code: tea.KeyLeft},
	"right": {Code: tea.KeyRight}, "pgup": {Code: tea.KeyPgUp}, "pgdown": {Code: tea.KeyPgDown}, "home": {Code: tea.KeyHome},
	"end": {Code: tea.KeyEnd}, "backspace": {Code: tea.KeyBackspace}, "space": {Code: tea.KeySpace, Text: " "}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl},
}

// press sends keys by name and returns the last key's command.
func press(m *model, keys ...string) (cmd tea.Cmd) {
	for _, k := range keys {
		key, ok := special[k]
		if !ok {
			key = tea.Key{Code: []rune(k)[0], Text: k}
		}
		_, cmd = m.Update(tea.KeyPressMsg(key))
	}
	return cmd
}

// spell types a text.
func spell(m *model, text string) {
	for _, r := range text {
		press(m, string(r))
	}
}

func TestQuitKeys(t *testing.T) {
	var asked []bool
	m := shown(t, 2, 80, 24)
	m.cfg.Interrupt = func(now bool) { asked = append(asked, now) }
	press(m, "x")
	require.Nil(t, press(m, "q"))
	require.Empty(t, asked, "q asks first")
	require.Contains(t, m.frame, "s stop after a checkpoint · esc train on")
	require.Contains(t, m.frame, "use --detach to keep")
	press(m, "esc", "s")
	require.Empty(t, asked)
	press(m, "q", "q", "l")
	require.Empty(t, asked)
	press(m, "s")
	require.Equal(t, []bool{false}, asked)
	require.Contains(t, m.frame, "stopping: nodes finish")
	press(m, "q", "s")
	require.Equal(t, []bool{false}, asked, "a second q doesn't hurry")
	press(m, "ctrl+c")
	require.Equal(t, []bool{false, true}, asked)
	require.Contains(t, m.frame, "stopping now")
	press(m, "ctrl+c")
	require.Len(t, asked, 2)

	for _, keys := range [][]string{{"ctrl+c"}, {"q", "ctrl+c"}, {"/", "ctrl+c"}, {"?", "ctrl+c"}} {
		asked = nil
		m = shown(t, 2, 80, 24)
		m.cfg.Interrupt = func(now bool) { asked = append(asked, now) }
		press(m, keys...)
		require.Equal(t, []bool{false}, asked, "ctrl+c stops in order wherever it is pressed: %v", keys)
	}
	for _, keys := range [][]string{{"q"}, {"ctrl+c"}, {"enter", "q"}, {"/", "ctrl+c"}, {"?", "q"}} {
		m = shown(t, 2, 80, 24)
		cmd := press(m, keys...)
		require.NotNil(t, cmd, "without Interrupt it leaves: %v", keys)
		require.IsType(t, tea.QuitMsg{}, cmd())
	}
}

// No key on any page may cause a panic or a frame larger than the terminal.
func TestAnyKeyAnywhere(t *testing.T) {
	keys := []string{"a", "g", "G", "j", "k", "n", "N", "f", "e", "l", "?", "/", "b"}
	for name := range special {
		if name != "ctrl+c" {
			keys = append(keys, name)
		}
	}
	for name, path := range everyPage {
		for _, nodes := range []int{0, 1, 24} {
			m := shown(t, nodes, 80, 24)
			for _, k := range path {
				settle(t, m, press(m, k))
			}
			for _, k := range keys {
				press(m, k)
				requireFits(t, m)
			}
			require.NotEmpty(t, m.frame, name)
		}
	}
}
