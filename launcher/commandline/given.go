package commandline

import (
	"github.com/spf13/pflag"
)

// Given returns the flags that the user set as arguments --NAME=VALUE, one per value of a list. It skips names for
// which leaveOut is true. value, unless nil, transforms each value.
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
