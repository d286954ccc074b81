package settings

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/configs"
)

// GuessWorkload returns the built-in profile with the most files in the folder, and the evidence. Both are "" if no
// profile matches.
func GuessWorkload(dir string) (name, how string) {
	best := 0
	for _, candidate := range configs.Workloads() {
		w, err := configs.LoadWorkload(candidate)
		if err != nil {
			continue // built-in profiles are tested
		}
		files := map[string]bool{}
		for _, v := range w.Values {
			for _, p := range v.Places {
				file, _, _ := strings.Cut(p, ":")
				if info, err := os.Stat(filepath.Join(dir, file)); err == nil && info.Mode().IsRegular() {
					files[file] = true
				}
			}
		}
		if len(files) > best {
			best, name = len(files), candidate
			how = "found in the folder: " + strings.Join(slices.Sorted(maps.Keys(files)), ", ")
		}
	}
	return name, how
}

// LoadWorkload returns the built-in profile of that name, or the profile in the YAML file at that path.
func LoadWorkload(nameOrPath string) (configs.Workload, error) {
	extension := strings.ToLower(filepath.Ext(nameOrPath))
	isPath := extension == ".yaml" || extension == ".yml" || strings.ContainsRune(nameOrPath, filepath.Separator)
	if !isPath || slices.Contains(configs.Workloads(), nameOrPath) {
		return configs.LoadWorkload(nameOrPath)
	}
	refuse := func(why string) error {
		return &configs.Error{Problem: "cannot read the profile " + strconv.Quote(nameOrPath), Remedy: why}
	}
	info, err := os.Stat(nameOrPath)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return configs.Workload{}, refuse("there is no such file; built-in profiles: " + strings.Join(configs.Workloads(), ", "))
	case err != nil:
		return configs.Workload{}, refuse(err.Error())
	case !info.Mode().IsRegular():
		return configs.Workload{}, refuse("it is not a regular file")
	}
	file, err := os.Open(nameOrPath)
	if err != nil {
		return configs.Workload{}, refuse(err.Error())
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, configs.MaxDocument+1)) // ParseWorkload rejects a longer file
	if err != nil {
		return configs.Workload{}, refuse(err.Error())
	}
	return configs.ParseWorkload(nameOrPath, data)
}
