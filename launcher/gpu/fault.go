package gpu

// Fault reports that all work on a GPU has stopped.
type Fault struct {
	GPU     int // index
	Message string
}

// Faults returns the faults that appeared between two samples of one Sampler: lost GPUs, and XID errors that require
// a reset, one per GPU or MIG instance. Before the first sample, pass the zero Sample.
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

// board returns the index of the whole GPU.
func (g GPU) board() int {
	if g.InstanceOf != nil {
		return *g.InstanceOf
	}
	return g.Index
}
