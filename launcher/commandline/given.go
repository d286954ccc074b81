package commandline

import (
	"github.com/spf13/pflag"
)

// Given are the flags that were given, as arguments NAME=VALUE of a command that has them, too; of a list each value.
// value, unless nil, is what a value becomes.
func Given(f *pflag.FlagSet, leaveOut func(name string) bool, value func(flag *pflag.Flag, text string) string) (args []string) {
	f.Visit(func(flag *pflag.Flag) {
		if leaveOut(flag.Name) {
			return
		}
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			if value != nil {
				v = value(flag, v)
			}
			args = append(args, "--"+flag.Name+"="+v)
		}
	})
	return args
}
