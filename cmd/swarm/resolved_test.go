package main

import (
	"os"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
)

// resolved parses arguments like a command and resolves the configuration.
func resolved(args, environ []string, hasCUDA bool) (configs.Config, configs.Model, []string, error) {
	var f resolve.Flags
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		return configs.Config{}, configs.Model{}, nil, err
	}
	return configSources(environ, hasCUDA).Config(&f)
}

func writeFile(t require.TestingT, path, text string) string {
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
