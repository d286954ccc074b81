package gpu

// Fault says that nothing on a GPU goes on.
type Fault struct {
	GPU     int // index
	Message string
}

// Faults returns what became known between two samples of one Sampler: GPUs that were lost, and XID errors that only a
// reset mends, one a GPU or MIG instance. The zero Sample stands before the first.
func Faults(before, now Sample) (faults []Fault) {
	lost := map[int]bool{}
	for _, d := range before.Devices {
		lost[d.Index] = d.Lost
	}
	for _, d := range now.Devices {
		message := ""
		for _, x := range now.XIDs {
			if x.Fatal() && x.Index == d.board() {
				message = x.String()
			}
		}
		if message == "" && d.Lost && !lost[d.Index] {
			message = d.Problem
		}
		if message != "" {
			faults = append(faults, Fault{d.Index, message})
		}
	}
	return faults
}

// board is the index of the whole GPU.
func (g GPU) board() int {
	if g.InstanceOf != nil {
		return *g.InstanceOf
	}
	return g.Index
}
