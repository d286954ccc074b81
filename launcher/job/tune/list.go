package tune

import "github.com/sapo-swarm/swarm/configs"

// Listed is a profile in swarm tune --list -o json.
type Listed struct {
	Name   string   `json:"name"`
	About  string   `json:"about"`
	Source string   `json:"source"`
	Values []string `json:"values"`
}

// List returns the built-in profiles.
func List() ([]Listed, error) {
	list := []Listed{}
	for _, name := range configs.Workloads() {
		w, err := configs.LoadWorkload(name)
		if err != nil {
			return nil, err
		}
		item := Listed{Name: name, About: w.About, Source: w.Source, Values: []string{}}
		for _, v := range w.Values {
			item.Values = append(item.Values, v.Name)
		}
		list = append(list, item)
	}
	return list, nil
}
